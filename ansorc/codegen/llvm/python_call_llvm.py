"""The machine code of calls from Python: records of a kernel and of its arguments, and LLVM IR."""

from __future__ import annotations

import re
from collections.abc import Mapping


def python_call_llvm(triple: str, places: Mapping[str, int]) -> str:
    """Return the text of a module with `call` and `run`; see `python_call`.

    `places` says where objects have their fields.
    """
    text = f'target triple = "{triple}"\n{_LLVM}'
    for name, place in places.items():
        text = text.replace(name, str(place))
    for pattern, expansion in _LOADS.items():
        text = re.sub(pattern, expansion, text)
    return text


_NAME = r"(%[\w.]+)"
_LOADS = {
    rf"{_NAME} = at (\w+) {_NAME} (\d+)": (
        r"\1.at = getelementptr i8, ptr \3, i64 \4\n  \1 = load \2, ptr \1.at"
    ),
    rf"{_NAME} = item (\w+) {_NAME} (i\d+ [%\w.]+)": (
        r"\1.at = getelementptr \2, ptr \3, \4\n  \1 = load \2, ptr \1.at"
    ),
    rf"{_NAME} = field (\w+) {_NAME} {_NAME} ([%\w.]+) (\d+)": (
        r"\1.at = getelementptr \3, ptr \4, i64 \5, i32 \6\n  \1 = load \2, ptr \1.at"
    ),
}
"""What the text below has besides LLVM's own language: loads of a field of an object, of an item,
and of a field of a record, with their addresses."""
_LLVM = """\
%argument = type { ptr, ptr, ptr, ptr, i32, i32, i64, i64, i64 }
%call_record = type { ptr, ptr, i64, i64, i64, ptr, ptr, ptr, ptr, ptr }
%run_record = type { ptr, ptr, ptr, ptr, i64 }

declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyLong_AsVoidPtr(ptr)
declare i64 @PyLong_AsLong(ptr)
declare ptr @PyErr_Occurred()
declare i64 @PyLong_AsLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLong(i64)
declare i32 @PyType_IsSubtype(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)

; The address of the memory of %value if it is what %argument says, else null.
define internal ptr @address(ptr %value, ptr %argument, ptr %record) {
entry:
  %type = at ptr %value OBJECT_TYPE
  %ndarray = field ptr %call_record %record 0 7
  %is.array = icmp eq ptr %type, %ndarray
  br i1 %is.array, label %plain, label %other
other:
  %packed.at = getelementptr %call_record, ptr %record, i32 0, i32 8
  %packed.type = load ptr, ptr %packed.at
  %is.packed = icmp eq ptr %type, %packed.type
  br i1 %is.packed, label %packed, label %subtype
subtype:
  %is.subtype = call i32 @PyType_IsSubtype(ptr %type, ptr %ndarray)
  %is.kind = icmp ne i32 %is.subtype, 0
  br i1 %is.kind, label %plain, label %unknown
packed:
  %given = at ptr %value WEIGHT_PACKING
  %wanted = field ptr %argument %argument 0 2
  %is.weight = icmp ne ptr %wanted, null
  %is.this = icmp eq ptr %given, %wanted
  %is.wanted = and i1 %is.weight, %is.this
  br i1 %is.wanted, label %held, label %unknown
held:
  %array = at ptr %value WEIGHT_ARRAY
  %has.array = icmp ne ptr %array, null
  br i1 %has.array, label %kind, label %unknown
kind:
  %array.type = at ptr %array OBJECT_TYPE
  %is.right = icmp eq ptr %array.type, %ndarray
  br i1 %is.right, label %found, label %unknown
plain:
  %takes = field i64 %argument %argument 0 8
  %takes.plain = icmp ne i64 %takes, 0
  br i1 %takes.plain, label %fit, label %unknown
fit:
  %dtype = at ptr %value ARRAY_DTYPE
  %dtype.wanted = field ptr %argument %argument 0 1
  %same.dtype = icmp eq ptr %dtype, %dtype.wanted
  %flags = at i32 %value ARRAY_FLAGS
  %flags.wanted = field i32 %argument %argument 0 5
  %flags.common = and i32 %flags, %flags.wanted
  %same.flags = icmp eq i32 %flags.common, %flags.wanted
  %rank = at i32 %value ARRAY_RANK
  %rank.wanted = field i32 %argument %argument 0 4
  %same.rank = icmp eq i32 %rank, %rank.wanted
  %same.1 = and i1 %same.dtype, %same.flags
  %same.2 = and i1 %same.1, %same.rank
  br i1 %same.2, label %shape, label %unknown
shape:
  %extents = at ptr %value ARRAY_EXTENTS
  %extents.wanted = field ptr %argument %argument 0 3
  br label %dimension
dimension:
  %d = phi i32 [0, %shape], [%d.next, %extent]
  %d.more = icmp slt i32 %d, %rank
  br i1 %d.more, label %extent, label %found
extent:
  %one = item i64 %extents i32 %d
  %one.wanted = item i64 %extents.wanted i32 %d
  %d.next = add i32 %d, 1
  %same.extent = icmp eq i64 %one, %one.wanted
  br i1 %same.extent, label %dimension, label %unknown
found:
  %owner = phi ptr [%array, %kind], [%value, %dimension]
  %data = at ptr %owner ARRAY_DATA
  ret ptr %data
unknown:
  ret ptr null
}

; Whether an output shares a byte with another array.
define internal i1 @overlap(ptr %addresses, ptr %arguments, i64 %count) {
entry:
  br label %outer
outer:
  %i = phi i64 [0, %entry], [%i.next, %outer.end]
  %i.more = icmp slt i64 %i, %count
  br i1 %i.more, label %output, label %separate
output:
  %is = field i64 %argument %arguments %i 7
  %is.output = icmp ne i64 %is, 0
  %i.at = getelementptr i64, ptr %addresses, i64 %i
  %i.begin = load i64, ptr %i.at
  %i.bytes = field i64 %argument %arguments %i 6
  %i.end = add i64 %i.begin, %i.bytes
  br i1 %is.output, label %inner, label %outer.end
inner:
  %j = phi i64 [0, %output], [%j.next, %inner.end]
  %j.more = icmp slt i64 %j, %count
  br i1 %j.more, label %pair, label %outer.end
pair:
  %j.at = getelementptr i64, ptr %addresses, i64 %j
  %j.begin = load i64, ptr %j.at
  %j.bytes = field i64 %argument %arguments %j 6
  %j.end = add i64 %j.begin, %j.bytes
  %is.other = icmp ne i64 %i, %j
  %before = icmp ult i64 %i.begin, %j.end
  %after = icmp ult i64 %j.begin, %i.end
  %both = and i1 %before, %after
  %shares = and i1 %is.other, %both
  br i1 %shares, label %shared, label %inner.end
inner.end:
  %j.next = add i64 %j, 1
  br label %inner
outer.end:
  %i.next = add i64 %i, 1
  br label %outer
separate:
  ret i1 false
shared:
  ret i1 true
}

define ptr @call(ptr %self, ptr %given, i64 %number) {
entry:
  %overflow = alloca i32
  %key = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %record = call ptr @PyLong_AsVoidPtr(ptr %key)
  %none = field ptr %call_record %record 0 9
  %is.call = icmp eq i64 %number, 3
  br i1 %is.call, label %counts, label %refuse
counts:
  %values = load ptr, ptr %given
  %threads.at = getelementptr ptr, ptr %given, i64 1
  %threads.object = load ptr, ptr %threads.at
  %workspace.at = getelementptr ptr, ptr %given, i64 2
  %workspace.object = load ptr, ptr %workspace.at
  %size = call i64 @PyTuple_Size(ptr %values)
  %wanted = field i64 %call_record %record 0 3
  %is.count = icmp eq i64 %size, %wanted
  %int = field ptr %call_record %record 0 6
  %threads.type = at ptr %threads.object OBJECT_TYPE
  %is.int = icmp eq ptr %threads.type, %int
  %is.good = and i1 %is.count, %is.int
  br i1 %is.good, label %limits, label %refuse
limits:
  %threads.long = call i64 @PyLong_AsLongAndOverflow(ptr %threads.object, ptr %overflow)
  %exceeds = load i32, ptr %overflow
  %is.small = icmp eq i32 %exceeds, 0
  %most = field i64 %call_record %record 0 4
  %is.few = icmp ule i64 %threads.long, %most
  %is.allowed = and i1 %is.small, %is.few
  br i1 %is.allowed, label %start, label %refuse
start:
  %threads = trunc i64 %threads.long to i32
  %workspace = call ptr @PyLong_AsVoidPtr(ptr %workspace.object)
  %count = field i64 %call_record %record 0 2
  %arguments = field ptr %call_record %record 0 5
  %addresses = alloca ptr, i64 %count
  br label %loop
loop:
  %n = phi i64 [0, %start], [%n.next, %store]
  %next = phi i64 [0, %start], [%next.after, %store]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %each, label %complete
each:
  %argument = getelementptr %argument, ptr %arguments, i64 %n
  %fixed = load ptr, ptr %argument
  %is.free = icmp eq ptr %fixed, null
  br i1 %is.free, label %take, label %store
take:
  %value = call ptr @PyTuple_GetItem(ptr %values, i64 %next)
  %place = call ptr @address(ptr %value, ptr %argument, ptr %record)
  %next.taken = add i64 %next, 1
  %is.known = icmp ne ptr %place, null
  br i1 %is.known, label %store, label %refuse
store:
  %address = phi ptr [%fixed, %each], [%place, %take]
  %next.after = phi i64 [%next, %each], [%next.taken, %take]
  %address.at = getelementptr ptr, ptr %addresses, i64 %n
  store ptr %address, ptr %address.at
  %n.next = add i64 %n, 1
  br label %loop
complete:
  %shared = call i1 @overlap(ptr %addresses, ptr %arguments, i64 %count)
  br i1 %shared, label %refuse, label %run
run:
  %kernel = load ptr, ptr %record
  %repeat = field ptr %call_record %record 0 1
  %state = call ptr @PyEval_SaveThread()
  %status = call i32 %repeat(ptr %kernel, ptr %addresses, ptr %workspace, i32 %threads, i64 1)
  call void @PyEval_RestoreThread(ptr %state)
  %wide = sext i32 %status to i64
  %result = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %result
refuse:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}

define ptr @run(ptr %self, ptr %given, i64 %number) {
entry:
  %key = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %record = call ptr @PyLong_AsVoidPtr(ptr %key)
  %calls.object = load ptr, ptr %given
  %calls = call i64 @PyLong_AsLong(ptr %calls.object)
  %is.doubtful = icmp eq i64 %calls, -1
  br i1 %is.doubtful, label %doubt, label %start
doubt:
  %error = call ptr @PyErr_Occurred()
  %is.error = icmp ne ptr %error, null
  br i1 %is.error, label %fail, label %start
start:
  %kernel = load ptr, ptr %record
  %repeat = field ptr %run_record %record 0 1
  %arrays = field ptr %run_record %record 0 2
  %workspace = field ptr %run_record %record 0 3
  %threads.at = getelementptr %run_record, ptr %record, i32 0, i32 4
  %threads.long = load i64, ptr %threads.at
  %threads = trunc i64 %threads.long to i32
  %state = call ptr @PyEval_SaveThread()
  %status = call i32 %repeat(ptr %kernel, ptr %arrays, ptr %workspace, i32 %threads, i64 %calls)
  call void @PyEval_RestoreThread(ptr %state)
  %wide = sext i32 %status to i64
  %result = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %result
fail:
  ret ptr null
}
"""
