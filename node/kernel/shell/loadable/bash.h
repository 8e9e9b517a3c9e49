/* The parts of bash that the builtin uses. A program that loads builtins exports
   them all, so no header of bash is needed; they are the same from bash 4.4 on. */

#ifndef LOCUS_BASH_H
#define LOCUS_BASH_H

#include <setjmp.h>
#include <signal.h>
#include <sys/types.h>

typedef struct word_desc {
	char *word;
	int flags;
} WORD_DESC;

typedef struct word_list {
	struct word_list *next;
	WORD_DESC *word;
} WORD_LIST;

struct builtin {
	char *name;
	int (*function)(WORD_LIST *);
	int flags;
	char *const *long_doc;
	const char *short_doc;
	char *handle;
};

#define BUILTIN_ENABLED 0x01
#define EXECUTION_FAILURE 1
#define EX_USAGE 258

/* Flags of parse_and_execute: not interactive, no history, lines count from 1. */
#define SEVAL_NONINT 0x001
#define SEVAL_NOHIST 0x004
#define SEVAL_RESETLINE 0x010

/* What a jump to top_level carries. */
#define FORCE_EOF 1
#define DISCARD 2
#define EXITPROG 3

extern sigjmp_buf top_level;
extern int parse_and_execute(char *string, const char *from_file, int flags);
extern int parse_and_execute_level;
extern void parse_and_execute_cleanup(int old_running_trap);
extern void clear_unwind_protect_list(int flags);
extern void run_unwind_protects(void);
extern void reset_parser(void);

extern void *xmalloc(size_t);
extern void xfree(void *);
extern WORD_DESC *make_word(const char *);
extern WORD_LIST *make_word_list(WORD_DESC *, WORD_LIST *);
extern void dispose_words(WORD_LIST *);
extern int declare_builtin(WORD_LIST *);
extern int alias_builtin(WORD_LIST *);

extern int last_command_exit_value;
extern int indirection_level;
extern int startup_state;
extern int read_but_dont_execute;
extern int variable_context;
extern int loop_level, breaking, continuing, funcnest, funcnest_max;
extern int return_catch_flag, executing_list, executing_builtin;
extern int comsub_ignore_return, evalnest, sourcelevel, running_trap;
extern int builtin_ignoring_errexit;
extern void *redirection_undo_list;
extern volatile sig_atomic_t interrupt_state;
extern pid_t dollar_dollar_pid;

typedef struct variable {
	char *name;
	char *value;
	char *exportstr; /* NAME=VALUE */
	void *dynamic_value;
	struct variable *(*assign_func)(struct variable *, char *value, long index, char *key);
	int attributes;
	int context;
} SHELL_VAR;

#define ATT_EXPORTED 0x0000001
#define ATT_READONLY 0x0000002

extern SHELL_VAR *find_variable(const char *name);

struct bucket_contents {
	struct bucket_contents *next;
	char *key;
	void *data;
	unsigned int khash;
	int times_found;
};

/* Exported entries that are no variables, and whether the environment of commands has
   to be put together anew. */
extern struct hash_table *invalid_env;
extern struct hash_table *hash_create(int);
extern struct bucket_contents *hash_insert(char *, struct hash_table *, int);
extern int array_needs_making;

extern int signal_is_trapped(int);
extern void run_pending_traps(void);
extern int run_exit_trap(void);
extern void sigint_sighandler(int);
extern void (*set_signal_handler(int, void (*)(int)))(int);
extern void without_job_control(void);

#endif
