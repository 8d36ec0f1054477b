/* A function that the interposer only forwards, with whatever arguments: integers in registers and on the stack, vectors of
 * 16 bytes, and a struct that is returned in memory. Twice, since the first call looks the function up.
 *
 * With -DVENDOR: the library that has it, which checks what arrives. The signature is made up; the name is one of NCCL's. */
#include <stdio.h>
#include <string.h>

typedef float vector __attribute__((vector_size(16)));
struct large { long words[9]; };
#define FUNCTION ncclCommCount
struct large FUNCTION(long, long, long, long, long, long, long, long, vector, vector, vector, vector, vector, vector, vector,
                      vector, long, double, vector);

static vector of(float first) { return (vector){first, first + 1, first + 2, first + 3}; }

#ifdef VENDOR
#include "null_nccl.c"

static int is(vector found, float first)
{
    vector expected = of(first);
    return !memcmp(&found, &expected, sizeof found);
}

struct large FUNCTION(long a, long b, long c, long d, long e, long f, long g, long h, vector i, vector j, vector k, vector l,
                      vector m, vector n, vector o, vector p, long q, double r, vector s)
{
    int whole = a == 11 && b == 12 && c == 13 && d == 14 && e == 15 && f == 16 && g == 17 && h == 18 && is(i, 20) && is(j, 30) &&
                is(k, 40) && is(l, 50) && is(m, 60) && is(n, 70) && is(o, 80) && is(p, 90) && q == 100 && r == 101 && is(s, 110);
    return (struct large){{whole, 1, 2, 3, 4, 5, 6, 7, 8}};
}
#else
static int call(void)
{
    struct large got = FUNCTION(11, 12, 13, 14, 15, 16, 17, 18, of(20), of(30), of(40), of(50), of(60), of(70), of(80), of(90), 100,
                                101, of(110));
    for (int word = 1; word < 9; word++)
        if (got.words[word] != word)
            return printf("word %d of the result is %ld\n", word, got.words[word]), 1;
    return got.words[0] ? 0 : (puts("an argument did not arrive"), 1);
}

int main(void) { return call() || call(); }
#endif
