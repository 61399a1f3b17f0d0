/* A leak planted on purpose, to see the stress program find it: `make planted-leak`. Without
 * -DFLATCLIP_PLANTED_LEAK it does nothing, and the normal program has none. */
#ifndef STRESS_LEAK_H
#define STRESS_LEAK_H

/* Leaks what $FLATCLIP_LEAK names, in every iteration from number $FLATCLIP_LEAK_FROM on: heap (64
 * bytes), resident (a page that no heap knows of), descriptor or thread. */
void stress_leak(long iteration);

#endif
