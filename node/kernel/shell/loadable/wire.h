/* Packets between the node and a shell. */

#ifndef LOCUS_WIRE_H
#define LOCUS_WIRE_H

#include <stddef.h>

enum { HEAD = 64, TOKEN = 32, CALLER = 18, MOST_FDS = 4, MOST_INLINE = 32 << 10 };

struct request {
	char op;
	unsigned long seq;
	size_t size;     /* of the code */
	char options[10];
	char caller[CALLER + 1];
	int fds[MOST_FDS];
	int count;       /* of the descriptors */
	char *code;      /* from xmalloc, with a NUL behind it */
};

/* Moves a descriptor out of the reach of code that closes all it can count. */
int raise_fd(int fd);

/* Waits for a request. Gives 1, 0 at the end of the conversation, and -1 when a
   signal came first. */
int receive(int control, struct request *r);

int has_option(const struct request *r, char option);

struct cost {
	long long cpu;       /* microseconds */
	long resident;       /* KiB, the most at once */
	unsigned long forks;
};

/* Says that a call has ended, and what the shell has cost since it began. */
void report(int control, const char *token, unsigned long seq, int status, const struct cost *cost);

/* Says one thing, with a descriptor or -1. */
void say(int control, const char *token, char kind, unsigned long seq, int status, int fd);

#endif
