// ansorc-runner: runs and times kernels on a machine that has nothing else of ansorc.
//
//   ansorc-runner [--cores 0-3,6]      serves requests on its input, answers on its output
//   ansorc-runner --machine            prints what it can prove of the machine
//
// It runs the code that it is sent, with the rights that it was started with. frames.h says how a
// request looks on the pipe, requests.h which there are.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "frames.h"
#include "machine.h"
#include "requests.h"

namespace ansorc {
namespace {

const char* complaint(Reading reading) {
  switch (reading) {
    case Reading::kSkipped: return "bytes that are no frame were skipped";
    case Reading::kDamaged: return "a frame whose payload is damaged, or was cut off, was skipped";
    case Reading::kTooLong: return "a frame is longer than this runner takes (1 MiB)";
    default: return "";
  }
}

int serve() {
  static FrameReader reader;
  static Bench bench;
  for (;;) {
    const Reading reading = reader.next();
    switch (reading) {
      case Reading::kEnd: return 0;
      case Reading::kEndInside:
        fprintf(stderr, "ansorc-runner: the pipe ended inside of a frame\n");
        return 3;
      case Reading::kFrame: bench.answer(reader.header(), reader.payload()); break;
      case Reading::kSkipped: bench.refuse(0, Refusal::kNoFrame, "%zu %s", reader.skipped(), complaint(reading)); break;
      default: bench.refuse(reader.header().number, Refusal::kNoFrame, "%s", complaint(reading));
    }
  }
}

int usage() {
  fprintf(stderr, "usage: ansorc-runner [--cores 0-3,6] [--machine]\n"
                  "Serves ansorc on its input and output: `ansorc worker … --through COMMAND` starts it.\n");
  return 2;
}

}  // namespace
}  // namespace ansorc

int main(int count, char** words) {
  bool only_tells = false;
  for (int n = 1; n < count; ++n) {
    if (strcmp(words[n], "--machine") == 0) {
      only_tells = true;
    } else if (strcmp(words[n], "--cores") == 0 && n + 1 < count) {
      if (!ansorc::pin(words[++n])) {
        fprintf(stderr, "ansorc-runner: --cores %s: this process may not use these cores\n", words[n]);
        return 2;
      }
    } else {
      return ansorc::usage();
    }
  }
  if (only_tells) {
    static char text[32768];
    fwrite(text, 1, ansorc::describe_machine(text, sizeof text), stdout);
    return 0;
  }
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return ansorc::serve();
}
