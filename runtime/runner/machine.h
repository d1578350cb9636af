// What the runner can prove of its machine, and what depends on it: emptying caches, a fixed piece
// of work.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace ansorc {

// Lines "name: value" in `text`; returns their length.
size_t describe_machine(char* text, size_t size);

// Keeps this process on the cores of a list such as "0-3,6"; false if there are no such ones.
bool pin(const char* list);

bool can_evict();
void evict(const void* begin, size_t bytes);  // from all caches; the bytes stay what they are

void steady_work(int64_t steps);  // multiply-adds in registers; about 0.05 ms for 5000 steps

}  // namespace ansorc
