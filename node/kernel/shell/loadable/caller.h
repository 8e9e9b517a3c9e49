/* The caller on whose behalf the command "primitives" acts. */

#ifndef LOCUS_CALLER_H
#define LOCUS_CALLER_H

#include "wire.h"

/* Puts the caller's name into the environment of all processes started from now on. */
void name_caller(const char *name);

#endif
