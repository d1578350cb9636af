"""The machine code of calls from Python: records of a kernel and of its arguments, and LLVM IR."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansorc.codegen.llvm.writer import ONCE


def python_call_llvm(triple: str, places: Mapping[str, int]) -> str:
    """Return the text of a module with `call` and `run`; see `python_call`.

    `places` says where objects have their fields.
    """
    text = f'target triple = "{triple}"\n{_LLVM}attributes #0 = {{ {ONCE} }}\n'
    for name, offset in places.items():
        text = text.replace(name, str(offset))
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
"""Additions of the text below to LLVM's own language: loads of a field of an object, of an item,
and of a field of a record, with their addresses."""
_LLVM = """\
%argument = type { ptr, ptr, ptr, ptr, i32, i32, i64, i64, i64, i64, i32, i32 }
%call_record = type { ptr, ptr, i64, i64, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }
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
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)

@exchange = private constant [20 x i8] c"dlpack_exchange_api\\00"

; The address of the memory of %value if it is what %argument says, else null.
define internal ptr @address(ptr %value, ptr %argument, ptr %record) #0 {
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
  br i1 %is.kind, label %plain, label %foreign
foreign:
  %tensor = call ptr @tensor(ptr %value, ptr %argument, ptr %record)
  ret ptr %tensor
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

; The same for a tensor of a library that has DLPack's functions for C (DLPackExchangeAPI). One that
; requires gradients is left to Python, where exporters refuse it.
define internal ptr @tensor(ptr %value, ptr %argument, ptr %record) #0 {
entry:
  %place = alloca ptr
  store ptr null, ptr %place
  %takes = field i64 %argument %argument 0 8
  %takes.plain = icmp ne i64 %takes, 0
  br i1 %takes.plain, label %look, label %unknown
look:
  %type = at ptr %value OBJECT_TYPE
  %api.name = field ptr %call_record %record 0 10
  %capsule = call ptr @PyObject_GetAttr(ptr %type, ptr %api.name)
  %has.capsule = icmp ne ptr %capsule, null
  br i1 %has.capsule, label %open, label %failed
open:
  %api = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr @exchange)
  call void @Py_DecRef(ptr %capsule)
  %has.api = icmp ne ptr %api, null
  br i1 %has.api, label %version, label %failed
version:
  %major = load i32, ptr %api
  %is.known = icmp eq i32 %major, 1
  br i1 %is.known, label %gradient, label %unknown
gradient:
  %gradient.name = field ptr %call_record %record 0 11
  %requires = call ptr @PyObject_GetAttr(ptr %value, ptr %gradient.name)
  %has.gradient = icmp ne ptr %requires, null
  br i1 %has.gradient, label %told, label %untold
untold:
  call void @PyErr_Clear()
  br label %export
told:
  %false = field ptr %call_record %record 0 12
  %is.false = icmp eq ptr %requires, %false
  call void @Py_DecRef(ptr %requires)
  br i1 %is.false, label %export, label %unknown
export:
  %function = at ptr %api 24
  %status = call i32 %function(ptr %value, ptr %place)
  %managed = load ptr, ptr %place
  %is.exported = icmp eq i32 %status, 0
  %is.there = icmp ne ptr %managed, null
  %has.managed = and i1 %is.exported, %is.there
  br i1 %has.managed, label %examine, label %failed
examine:
  %spoken = load i32, ptr %managed
  %is.readable = icmp eq i32 %spoken, 1
  %flags = at i64 %managed 24
  %is = field i64 %argument %argument 0 7
  %copied.mask = or i64 %is, 2
  %hindrance = and i64 %flags, %copied.mask
  %is.free = icmp eq i64 %hindrance, 0
  %device = at i32 %managed 40
  %is.here = icmp eq i32 %device, 1
  %dtype = at i32 %managed 52
  %dtype.wanted = field i32 %argument %argument 0 10
  %same.dtype = icmp eq i32 %dtype, %dtype.wanted
  %rank = at i32 %managed 48
  %rank.wanted = field i32 %argument %argument 0 4
  %same.rank = icmp eq i32 %rank, %rank.wanted
  %data = at ptr %managed 32
  %offset = at i64 %managed 72
  %first = getelementptr i8, ptr %data, i64 %offset
  %number = ptrtoint ptr %first to i64
  %mask = field i64 %argument %argument 0 9
  %rest = and i64 %number, %mask
  %is.aligned = icmp eq i64 %rest, 0
  %fits.1 = and i1 %is.readable, %is.free
  %fits.2 = and i1 %fits.1, %is.here
  %fits.3 = and i1 %fits.2, %same.dtype
  %fits.4 = and i1 %fits.3, %same.rank
  %fits.5 = and i1 %fits.4, %is.aligned
  br i1 %fits.5, label %shape, label %done
shape:
  %extents = at ptr %managed 56
  %strides = at ptr %managed 64
  %is.dense = icmp eq ptr %strides, null
  %extents.wanted = field ptr %argument %argument 0 3
  br label %dimension
dimension:
  %d = phi i32 [%rank, %shape], [%d.next, %stride]
  %dense = phi i64 [1, %shape], [%dense.next, %stride]
  %d.next = sub i32 %d, 1
  %d.more = icmp sgt i32 %d, 0
  br i1 %d.more, label %extent, label %done
extent:
  %one = item i64 %extents i32 %d.next
  %one.wanted = item i64 %extents.wanted i32 %d.next
  %same.extent = icmp eq i64 %one, %one.wanted
  br i1 %same.extent, label %step, label %done
step:
  %dense.next = mul i64 %dense, %one
  br i1 %is.dense, label %stride, label %compare
compare:
  %stride.here = item i64 %strides i32 %d.next
  %same.stride = icmp eq i64 %stride.here, %dense
  %is.single = icmp eq i64 %one, 1
  %is.step = or i1 %same.stride, %is.single
  br i1 %is.step, label %stride, label %done
stride:
  br label %dimension
done:
  %found = phi ptr [null, %examine], [%first, %dimension], [null, %extent], [null, %compare]
  %deleter = at ptr %managed 16
  %has.deleter = icmp ne ptr %deleter, null
  br i1 %has.deleter, label %release, label %end
release:
  call void %deleter(ptr %managed)
  br label %end
end:
  ret ptr %found
failed:
  call void @PyErr_Clear()
  br label %unknown
unknown:
  ret ptr null
}

; Whether an output shares a byte with another array.
define internal i1 @overlap(ptr %addresses, ptr %arguments, i64 %count) #0 {
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

define ptr @call(ptr %self, ptr %given, i64 %number) #0 {
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

define ptr @run(ptr %self, ptr %given, i64 %number) #0 {
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
