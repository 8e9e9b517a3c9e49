/* The command primitives. It sends its arguments, and its standard input if one of them
   is "-", to the node, and writes the node's answer. The node interprets them. The package
   command describes the protocol; its client.go is the same client in Go, for machines
   without a C compiler. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

static char piece[PIECE];

static void fail(const char *what)
{
	fprintf(stderr, "primitives: %s\n", what);
	exit(1);
}

static void fail_with(const char *what)
{
	fprintf(stderr, "primitives: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Connects to the socket through a descriptor of its directory, because its full path may
   be longer than a socket address allows. */
static int reach(const char *door)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int dir = open(door, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (dir < 0 || fd < 0)
		fail_with("the node cannot be reached");
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/door", dir);
	while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		if (errno != EINTR)
			fail_with("the node cannot be reached");
	close(dir);
	return fd;
}

/* Returns 0 when the node has stopped reading; its answer then says why. */
static int put(int fd, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t n = send(fd, text, size, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return 0;
		text += n;
		size -= (size_t)n;
	}
	return 1;
}

static int put_part(int fd, const char *text, size_t size)
{
	uint32_t head = htonl((uint32_t)size);
	return put(fd, (char *)&head, sizeof head) && put(fd, text, size);
}

static int put_arguments(int fd, int count, char **arguments)
{
	size_t size = 0;
	for (int i = 0; i < count; i++)
		size += strlen(arguments[i]) + 1;
	uint32_t head = htonl((uint32_t)size);
	int heard = put(fd, (char *)&head, sizeof head);
	for (int i = 0; heard && i < count; i++)
		heard = put(fd, arguments[i], strlen(arguments[i]) + 1);
	return heard;
}

static int put_input(int fd)
{
	for (;;) {
		ssize_t n = read(STDIN_FILENO, piece, PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			fail_with("standard input cannot be read");
		if (n == 0)
			return 1;
		if (!put_part(fd, piece, (size_t)n))
			return 0;
	}
}

static void get(int fd, char *to, size_t size)
{
	while (size > 0) {
		ssize_t n = recv(fd, to, size, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail("the node gave no answer");
		to += n;
		size -= (size_t)n;
	}
}

static void give_out(int fd, int to)
{
	uint32_t left;
	get(fd, (char *)&left, sizeof left);
	left = ntohl(left);
	while (left > 0) {
		size_t size = left < PIECE ? left : PIECE;
		get(fd, piece, size);
		left -= (uint32_t)size;
		for (size_t done = 0; done < size;) {
			ssize_t n = write(to, piece + done, size - done);
			if (n < 0 && errno != EINTR)
				fail_with("the answer cannot be written");
			done += n < 0 ? 0 : (size_t)n;
		}
	}
}

int main(int count, char **arguments)
{
	const char *door = getenv("__locus_door"), *caller = getenv("__locus_caller");
	int input = 0;
	char status;
	if (!door || !caller)
		fail("this is not the program of a call: its environment lacks what names the call");
	for (int i = 1; i < count; i++)
		input |= !strcmp(arguments[i], "-");
	int fd = reach(door);
	if (put_part(fd, caller, strlen(caller)) && put_arguments(fd, count - 1, arguments + 1) && (!input || put_input(fd)))
		put_part(fd, "", 0);
	get(fd, &status, 1);
	give_out(fd, STDOUT_FILENO);
	give_out(fd, STDERR_FILENO);
	return status;
}
