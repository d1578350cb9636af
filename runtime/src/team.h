// Loops of a team: its members stay awake and poll one ticket, so a loop costs no system call.
//
// A loop is a new ticket with the number of its parts; member p has part p. The member and the caller
// both may begin a part, by setting the member's progress from an older ticket to this one: a caller
// that is done with its own takes what its members have not begun. So a loop never waits for a
// member that is not running, and a loop is over before the next one gets a ticket.
#pragma once

#include <sched.h>

#include "pool.h"

namespace ansorc {
namespace {

constexpr int kPartBits = 16;  // of a ticket: the parts of its loop, and whether a part is done
constexpr uint64_t kDone = UINT64_C(1) << (kPartBits - 1);
constexpr uint64_t kPartMask = kDone - 1;
static_assert(kMaxThreads < static_cast<int64_t>(kDone), "a ticket has room for all parts");
constexpr uint64_t kEnd = 0;  // parts of the ticket after the last loop

// How long a thread of a team spins where nothing else needs its core: longer than the serial code
// between two kernels of a network takes.
constexpr int64_t kTeamSpinNs = 5000000;
// Sleep until the next loop; false if the caller has ended the team and given this worker back.
bool nap(Team& team, Worker& worker, uint64_t seen) {
  team.nappers.fetch_add(1);
  worker.state.store(kNapping);
  while (team.ticket.load() == seen && worker.state.load() == kNapping) {
    sleep_while(worker.state, kNapping);
  }
  uint32_t state = kNapping;
  if (worker.state.compare_exchange_strong(state, kRunning)) {
    team.nappers.fetch_sub(1);
    return true;
  }
  return state == kRunning;
}

// Begin the part of `worker` in loop `ticket`, if it is `from` that its progress was.
bool begin_part(Worker& worker, uint64_t from, uint64_t ticket, uint64_t as) {
  return (from & ~kDone) != ticket && worker.progress.compare_exchange_strong(from, as);
}

// A worker's time in a team.
void serve(Team& team, Worker& worker) {
  const uint64_t part = static_cast<uint64_t>(worker.part);
  uint64_t seen = worker.progress.load(std::memory_order_relaxed) & ~kDone;
  for (bool has_napped = false;;) {
    const int64_t limit = !worker.spins.load(std::memory_order_relaxed) ? 0
                          : has_napped                                  ? kLateSpinNs
                                                                        : kSpinNs;
    const auto is_called = [&] { return team.ticket.load(std::memory_order_acquire) != seen; };
    has_napped = !watch_until(kTeamSpinNs, limit, is_called);
    if (has_napped && !nap(team, worker, seen)) return;
    // Progress first: if the caller has taken a part back, the ticket that is read is not older.
    const uint64_t from = worker.progress.load(std::memory_order_acquire);
    seen = team.ticket.load(std::memory_order_acquire);
    const uint64_t parts = seen & kPartMask;
    if (parts == kEnd) break;
    if (part >= parts || !begin_part(worker, from, seen, seen)) continue;
    run_part({team.body, team.closure, team.extent, static_cast<int64_t>(parts), 0, false, 0, {0}},
             worker.part);
    worker.progress.store(seen | kDone);
    if (team.caller_sleeps.load() != 0) {
      team.caller_sleeps.store(0);
      wake(team.caller_sleeps);
    }
  }
  worker.state.store(kIdle, std::memory_order_release);
  team.inside.fetch_sub(1, std::memory_order_release);
}

// Call `action(worker, part)` for the members that have the parts 1 … parts - 1.
template <typename Action>
void for_members(Team& team, int64_t parts, Action action) {
  for (int64_t part = 1; part < parts; ++part) action(pool().worker[team.member[part - 1]], part);
}

// Turn a member that naps into `state`; false if it does not nap.
bool end_nap(Team& team, Worker& worker, uint32_t state) {
  uint32_t napping = kNapping;
  if (!worker.state.compare_exchange_strong(napping, state)) return false;
  team.nappers.fetch_sub(1);
  return true;
}

void wake_members(Team& team, int64_t parts) {
  const int32_t cpu = current_cpu();
  for_members(team, parts, [&](Worker& worker, int64_t) {
    if (worker.state.load() != kNapping) return;
    steer(worker, cpu);
    if (end_nap(team, worker, kRunning)) wake(worker.state);
  });
}

// Give the next ticket, and return it.
uint64_t announce(Team& team, int64_t parts) {
  const uint64_t last = team.ticket.load(std::memory_order_relaxed) >> kPartBits;
  const uint64_t ticket = (last + 1) << kPartBits | static_cast<uint64_t>(parts);
  team.ticket.store(ticket);  // before nappers are counted, as they count before they look at it
  return ticket;
}

void sleep_until_done(Team& team, Worker& worker, uint64_t done) {
  for (;;) {
    team.caller_sleeps.store(1);
    if (worker.progress.load() == done) break;
    sleep_while(team.caller_sleeps, 1);
  }
  team.caller_sleeps.store(0);
}

// Wait for the part that `worker` has begun; what was done here since `begin` took less than twice
// as long, or the worker was off its core.
void wait_for_member(Team& team, Worker& worker, uint64_t ticket, int64_t begin) {
  const uint64_t done = ticket | kDone;
  const auto is_done = [&] { return worker.progress.load(std::memory_order_acquire) == done; };
  if (is_done()) return;
  const int64_t middle = now_ns();
  const int64_t limit = worker.spins.load(std::memory_order_relaxed) ? kSpinNs : 0;
  if (!watch_until(kTeamSpinNs, limit, is_done)) sleep_until_done(team, worker, done);
  const int64_t end = now_ns(), wait = end - middle;
  if (wait > kGapNs && wait > 2 * (middle - begin)) note_gap(end, wait);
}

// Run a loop in `parts` parts, at most as many as the team has threads.
void run_in_team(Team& team, const Job& job) {
  team.body = job.body;
  team.closure = job.closure;
  team.extent = job.extent;
  const int64_t begin = now_ns();
  const uint64_t ticket = announce(team, job.parts);
  if (team.nappers.load() != 0) wake_members(team, job.parts);
  run_part(job, 0);
  for_members(team, job.parts, [&](Worker& worker, int64_t part) {
    const uint64_t from = worker.progress.load(std::memory_order_acquire);
    if (begin_part(worker, from, ticket, ticket | kDone)) run_part(job, part);
  });
  for_members(team, job.parts,
              [&](Worker& worker, int64_t) { wait_for_member(team, worker, ticket, begin); });
}

}  // namespace
}  // namespace ansorc
