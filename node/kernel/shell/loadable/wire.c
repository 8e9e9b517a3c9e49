#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bash.h"
#include "wire.h"

int has_option(const struct request *r, char option)
{
	return memchr(r->options, option, sizeof r->options) != NULL;
}

/* Reads code that was sent in a file in memory, the last descriptor. */
static int take_long(struct request *r)
{
	if (r->count == 0)
		return 0;
	int fd = r->fds[--r->count];
	size_t done = 0;
	while (done < r->size) {
		ssize_t n = pread(fd, r->code + done, r->size - done, (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	close(fd);
	return done == r->size;
}

int receive(int control, struct request *r)
{
	static char packet[HEAD + MOST_INLINE];
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int) * MOST_FDS)];
	} ancillary;
	struct iovec part = { packet, sizeof packet };
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = ancillary.space, .msg_controllen = sizeof ancillary.space,
	};
	ssize_t n = recvmsg(control, &message, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EINTR ? -1 : 0;
	memset(r, 0, sizeof *r);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		r->count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(r->fds, CMSG_DATA(c), sizeof(int) * (size_t)r->count);
	}
	if (n < HEAD)
		return 0;
	char digits[11] = "";
	r->op = packet[0];
	memcpy(digits, packet + 2, 10);
	r->seq = strtoul(digits, NULL, 10);
	memcpy(digits, packet + 13, 10);
	r->size = strtoul(digits, NULL, 10);
	memcpy(r->options, packet + 24, sizeof r->options);
	memcpy(r->caller, packet + 45, CALLER);
	r->code = xmalloc(r->size + 1);
	r->code[r->size] = '\0';
	if (has_option(r, 'm'))
		return take_long(r);
	if (r->size != (size_t)n - HEAD)
		return 0;
	memcpy(r->code, packet + HEAD, r->size);
	return 1;
}

static void send_text(int control, char *text, size_t size, int fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} ancillary = { 0 };
	struct iovec part = { text, size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	if (fd >= 0) {
		message.msg_control = ancillary.space;
		message.msg_controllen = sizeof ancillary.space;
		struct cmsghdr *c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof fd);
	}
	/* If the node is gone, the next receive reports that. */
	while (sendmsg(control, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

void say(int control, const char *token, char kind, unsigned long seq, int status, int fd)
{
	char text[160];
	int n = snprintf(text, sizeof text, "%s %c %lu %d %ld .", token, kind, seq, status, (long)getpid());
	send_text(control, text, (size_t)n, fd);
}

void report(int control, const char *token, unsigned long seq, int status, const struct cost *cost)
{
	char text[224];
	int n = snprintf(text, sizeof text, "%s d %lu %d %ld . %lld %ld %lu", token, seq, status, (long)getpid(),
		cost->cpu, cost->resident, cost->forks);
	send_text(control, text, (size_t)n, -1);
}
