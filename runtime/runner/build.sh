#!/bin/sh
# Builds ansorc-runner as a static program: build.sh COMPILER OUTPUT, such as
#   build.sh aarch64-linux-gnu-g++ ansorc-runner-aarch64
set -e
here=$(dirname "$0")
# Without contraction the inputs that it draws have the host's bits.
exec $1 -std=c++17 -O2 -static -s -Wall -Wextra -Wpedantic -Werror -fno-exceptions -fno-rtti \
    -fno-threadsafe-statics -ffp-contract=off -ffunction-sections -fdata-sections -Wl,--gc-sections \
    -I"$here/../include" -I"$here/../src" "$here"/*.cc "$here/../src/thread_pool.cc" \
    -pthread -lm -o "$2"
