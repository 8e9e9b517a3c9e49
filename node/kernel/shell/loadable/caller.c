/* The caller's name is in the environment of the processes that a program starts, but it is
   not a variable of the session. Otherwise a program could save it with its environment,
   and a later call could restore the old name. Bash has a table of environment entries
   whose names are not valid for variables, and passes these on; the name is one of them. */

#include <stdio.h>

#include "bash.h"
#include "caller.h"

#define NAME "__locus_caller"

void name_caller(const char *name)
{
	static char entry[sizeof NAME + 1 + CALLER];
	static SHELL_VAR variable = {
		.name = NAME, .value = entry + sizeof NAME, .exportstr = entry, .attributes = ATT_EXPORTED,
	};
	if (!variable.value[0]) {
		if (!invalid_env)
			invalid_env = hash_create(8);
		struct bucket_contents *place = hash_insert(variable.name, invalid_env, 0);
		place->data = &variable;
	}
	snprintf(entry, sizeof entry, NAME "=%s", name);
	array_needs_making = 1;
}
