/* Whom the command "primitives" acts for. */

#ifndef LOCUS_CALLER_H
#define LOCUS_CALLER_H

#include "wire.h"

/* Names the caller to everything that the shell starts from now on. */
void name_caller(const char *name);

#endif
