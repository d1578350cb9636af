"""Names in C: which ones a kernel may have, and what its arrays and functions are called there."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Sequence

from ansorc.errors import BuildError

_NAMES_TAKEN = ("workspace", "threads")


def c_names(names: Sequence[str], reserved: Sequence[str] = _NAMES_TAKEN) -> list[str]:
    """Return an identifier of C for each name: unique, also in upper case, no word of C.

    None is one of `reserved`.
    """
    taken = {name.upper() for name in reserved}
    identifiers: list[str] = []
    for name in names:
        base = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_") or "array"
        base = f"p_{base}" if base[0].isdigit() else f"{base}_" if is_reserved(base) else base
        unique, number = base, 2
        while unique.upper() in taken:
            unique, number = f"{base}_{number}", number + 1
        taken.add(unique.upper())
        identifiers.append(unique)
    return identifiers


def packer_name(kernel: str, c_name: str) -> str:
    """Return the name of the C function that packs the array `c_name` for `kernel`."""
    return f"{kernel}_pack_{c_name}"


def require_c_name(name: str) -> None:
    """Raise BuildError unless a function of C and C++ may be called `name`."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise BuildError(
            f"a kernel cannot be called '{name}': its name becomes a C function, so it must be "
            "letters, digits and underscores, a letter first; give another name"
        )
    if is_reserved(name) or name.lower().startswith("ansorc_"):
        raise BuildError(
            f"a kernel cannot be called '{name}': C or the runtime uses that; give another name"
        )


def is_reserved(name: str) -> bool:
    """Whether `name` is a word of C or C++, a macro, or a function of the C library."""
    return name in _RESERVED or re.fullmatch(_MACROS, name, flags=re.ASCII) is not None


_RESERVED_TEXT = """
alignas alignof asm auto bool break case catch char class const constexpr const_cast continue
decltype default delete do double dynamic_cast else enum explicit export extern false float for
friend goto if inline int int8_t int16_t int32_t int64_t long main mutable namespace new noexcept
nullptr operator private protected public register reinterpret_cast requires restrict return short
signed sizeof size_t static static_assert static_cast struct switch template this thread_local
throw true try typedef typeid typename typeof uint8_t uint16_t uint32_t uint64_t union unsigned
using virtual void volatile wchar_t while concept co_await co_return co_yield char8_t char16_t
char32_t and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq
abs acos asin atan calloc ceil cos cosh erf erff exp exp2 expf expm1 fabs floor fma fmaf fmax fmin
fmod free log log1p log2 logf malloc memcpy memset memmove pow powf realloc round sin sinf sinh
sqrt sqrtf tan tanh tanhf trunc aligned_alloc exit abort read write
NULL NAN INFINITY EOF I unix linux i386 complex imaginary errno offsetof assert noreturn
stdin stdout stderr bool true false va_list va_arg va_start va_end va_copy setjmp BUFSIZ CHAR_BIT
HUGE_VAL HUGE_VALF HUGE_VALL WEOF TIME_UTC RAND_MAX FILENAME_MAX FOPEN_MAX L_tmpnam TMP_MAX NSIG
CLOCKS_PER_SEC MB_CUR_MAX MB_LEN_MAX EXIT_SUCCESS EXIT_FAILURE SEEK_SET SEEK_CUR SEEK_END DOMAIN
OVERFLOW UNDERFLOW SING PLOSS TLOSS fpclassify isfinite isinf isnan isnormal signbit isgreater
isgreaterequal isless islessequal islessgreater isunordered
CMPLX CMPLXF CMPLXL math_errhandling isalnum isblank iscntrl isgraph islower isprint ispunct isupper
isxdigit
atexit atof atoi atol atoll bsearch clearerr clock fclose feof ferror fflush fgetc fgets fopen
fprintf fputc fputs fread freopen frexp fscanf fseek ftell fwrite getc getchar getenv gets isalpha
isdigit isspace labs ldexp localtime longjmp memchr memcmp mktime modf perror printf putc putchar
puts qsort raise rand remove rename rewind scanf setbuf setlocale setvbuf signal snprintf sprintf
srand sscanf strcat strchr strcmp strcpy strlen strncat strncmp strncpy strstr strtod strtok strtol
strtoul system time tmpfile tolower toupper ungetc vfprintf vprintf vsnprintf vsprintf
acosf acosh acoshf asinf asinh asinhf atanf atan2 atan2f atanh atanhf cbrt cbrtf ceilf cosf coshf
copysign fabsf fdim floorf fmaxf fminf hypot hypotf lgamma log10 log10f log1pf log2f lrint lround
nan nearbyint remainder rint roundf sinhf tanf tgamma truncf close open kill fork exec pipe
"""
_MACROS = (
    r"(U?INT(\d+|_LEAST\d+|_FAST\d+|PTR|MAX)?|U?(CHAR|SHRT|LONG|LLONG)|SCHAR|SIZE|SSIZE|PTRDIFF|WCHAR"
    r"|WINT|SIG_ATOMIC)_(MIN|MAX|C|WIDTH)|(FLT|DBL|LDBL|DECIMAL)_[A-Z0-9_]+|(PRI|SCN)[diouxX]\w+"
    r"|(FE|FP|LC|SIG|ATOMIC|MATH)_[A-Z0-9_]+|M_([A-Z]+10|[A-Z]*PI[_0-9]*[A-Z0-9]*|E|LN2|LOG2E|SQRT2|SQRT1_2)"
)
"""Families of macros: limits, formats, constants of <math.h>."""
_RESERVED = frozenset(
    [*_RESERVED_TEXT.split(), *errno.errorcode.values(), *(each.name for each in signal.Signals)]
)
"""With the macros of errors and signals."""
