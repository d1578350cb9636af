// The CPU time that control groups allow this process, as containers and systemd limit it.
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace ansorc {

constexpr int64_t kNoQuota = INT64_MAX;
constexpr size_t kLineBytes = 1024;  // on the stack several times, which may be a small one

// A path that begins with a given directory; what does not fit is cut off, and then not found.
struct Path {
  char text[kLineBytes] = {};
  size_t length = 0;

  void append(const char* part, size_t count) {
    for (size_t i = 0; i < count && length + 1 < sizeof text; ++i) text[length++] = part[i];
    text[length] = '\0';
  }
  void append(const char* part) { append(part, strlen(part)); }
  void cut(size_t new_length) { text[length = new_length] = '\0'; }
};

// The lines of a file, one at a time.
class Lines {
 public:
  explicit Lines(const char* path) : file_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Lines() {
    if (file_ >= 0) close(file_);
  }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  // The next line without its end, nullptr after the last; of a long line only the beginning.
  const char* next() {
    size_t length = 0;
    for (;;) {
      if (at_ == filled_) {
        const ssize_t count = file_ < 0 ? 0 : read(file_, block_, sizeof block_);
        if (count <= 0 && length == 0) return nullptr;
        if (count <= 0) break;
        at_ = 0;
        filled_ = static_cast<size_t>(count);
      }
      const char letter = block_[at_++];
      if (letter == '\n') break;
      if (length + 1 < sizeof line_) line_[length++] = letter;
    }
    line_[length] = '\0';
    return line_;
  }

 private:
  int file_;
  size_t at_ = 0, filled_ = 0;
  char block_[kLineBytes / 2], line_[kLineBytes];
};

// Whether `name` is an item of the comma-separated list that begins at `list` and ends at `end`.
inline bool is_listed(const char* name, const char* list, const char* end) {
  const size_t length = strlen(name);
  while (list < end) {
    const char* comma = list;
    while (comma < end && *comma != ',') ++comma;
    if (static_cast<size_t>(comma - list) == length && memcmp(list, name, length) == 0) return true;
    list = comma + 1;
  }
  return false;
}

// Where word number `number` of `line` begins, "" if there are fewer; words end at a space.
inline const char* word(const char* line, int number) {
  for (; number > 0; --number) {
    const char* space = strchr(line, ' ');
    if (space == nullptr) return "";
    line = space + 1;
  }
  return line;
}

inline size_t word_length(const char* text) { return strcspn(text, " "); }

// `quota` of `period` in thousandths of a CPU, both texts that begin with a number.
inline int64_t ratio(const char* quota, const char* period) {
  const int64_t share = strtol(quota, nullptr, 10), whole = strtol(period, nullptr, 10);
  if (share <= 0 || whole <= 0 || share > INT64_MAX / 1000) return kNoQuota;
  return share * 1000 / whole;
}

// The quota that the files of one control group state, in thousandths of a CPU.
inline int64_t quota_of(Path& group, bool is_unified) {
  const size_t length = group.length;
  int64_t found = kNoQuota;
  group.append(is_unified ? "/cpu.max" : "/cpu.cfs_quota_us");
  Lines quota(group.text);
  const char* first = quota.next();
  if (first != nullptr && is_unified) {
    found = ratio(first, word(first, 1));  // "max 100000" if there is none
  } else if (first != nullptr) {
    group.cut(length);
    group.append("/cpu.cfs_period_us");
    Lines period(group.text);
    const char* second = period.next();
    if (second != nullptr) found = ratio(first, second);  // -1 if there is none
  }
  group.cut(length);
  return found;
}

// The path of this process's group, in the hierarchy of version 2 or in that of `cpu`.
inline void find_group(const char* root, bool is_unified, Path& group) {
  Path file;
  file.append(root);
  file.append("/proc/self/cgroup");
  Lines lines(file.text);
  while (const char* line = lines.next()) {  // "4:cpu,cpuacct:/path", in version 2 "0::/path"
    const char* names = strchr(line, ':');
    const char* path = names == nullptr ? nullptr : strchr(names + 1, ':');
    if (path == nullptr) continue;
    if (is_unified ? path == names + 1 : is_listed("cpu", names + 1, path)) {
      group.append(path + 1);
      return;
    }
  }
}

// The smallest quota of the group at `mounted` + `inner` and of all around it, up to `mounted`.
inline int64_t smallest_quota(Path& mounted, const char* inner, bool is_unified) {
  const size_t top = mounted.length;
  if (inner[0] != '\0' && inner[1] != '\0') mounted.append(inner);  // not "/"
  int64_t smallest = kNoQuota;
  for (;;) {
    const int64_t found = quota_of(mounted, is_unified);
    if (found < smallest) smallest = found;
    size_t end = mounted.length;
    while (end > top && mounted.text[end - 1] != '/') --end;
    if (end <= top) return smallest;
    mounted.cut(end - 1);
  }
}

// What leads from the group that is mounted to `group`: "" if it is that one, or cannot be seen.
inline const char* below(const char* mounted, const char* group) {
  const size_t length = word_length(mounted) == 1 ? 0 : word_length(mounted);  // "/" is above all
  if (strncmp(group, mounted, length) != 0 || strncmp(group, "/..", 3) == 0) return "";
  return group[length] == '/' ? group + length : "";
}

// The CPU time that this process may use, in thousandths of a CPU; kNoQuota if nothing limits it.
// `root` stands before every path that is read, "" for the machine's own files.
inline int64_t cpu_quota(const char* root) {
  Path file;
  file.append(root);
  file.append("/proc/self/mountinfo");
  Lines mounts(file.text);
  int64_t smallest = kNoQuota;
  // "31 23 0:28 /inner /mounted rw - cgroup cgroup rw,cpu"
  while (const char* line = mounts.next()) {
    const char* kind = strstr(line, " - cgroup");
    if (kind == nullptr) continue;
    const char* options = word(kind, 4);
    const bool is_unified = strncmp(kind, " - cgroup2 ", 11) == 0;
    const bool is_cpu = is_listed("cpu", options, options + strlen(options));
    if (!is_unified && !is_cpu) continue;
    const char *inner = word(line, 3), *place = word(line, 4);
    Path group, mounted;
    find_group(root, is_unified, group);
    mounted.append(root);
    mounted.append(place, word_length(place));
    const int64_t found = smallest_quota(mounted, below(inner, group.text), is_unified);
    if (found < smallest) smallest = found;
  }
  return smallest;
}

}  // namespace ansorc
