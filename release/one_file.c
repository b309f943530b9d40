// SPDX-License-Identifier: BSD-2-Clause
/*
 * The start of the one-file program: Python as a library, told where everything is. Its modules
 * are an archive at the end of this very file.
 *
 * Nothing of the environment, the current folder or the user's home is looked at. As
 * `retsnoop-py --python ...` it is the Python inside.
 */
#define _GNU_SOURCE
#include <Python.h>

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* A static program has no loader. Those who ask for one, ctypes and cffi, get the functions of the
 * table that release/one_file.py writes. */
struct function {
	const char *name;
	void *address;
};
extern const struct function one_file_functions[];

/* Of the names that dlopen is asked for, those whose functions are in here. */
static const char *const inside[] = { "libc.so.6", "libcapstone.so.5" };
static const char *what_failed;

void *dlopen(const char *name, int flags)
{
	(void)flags;
	if (!name)
		return (void *)one_file_functions;
	for (size_t at = 0; at < sizeof(inside) / sizeof(inside[0]); at++)
		if (strcmp(name, inside[at]) == 0)
			return (void *)one_file_functions;
	what_failed = "this program is static and loads no libraries";
	return NULL;
}

void *dlsym(void *library, const char *name)
{
	(void)library;
	for (const struct function *one = one_file_functions; one->name; one++)
		if (strcmp(one->name, name) == 0)
			return one->address;
	what_failed = "there is no such function in this program";
	return NULL;
}

int dlclose(void *library)
{
	(void)library;
	return 0;
}

char *dlerror(void)
{
	const char *said = what_failed;

	what_failed = NULL;
	return (char *)said;
}

/* glibc's, which libdw calls when it gets no memory. */
void error(int status, int number, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "retsnoop-py: ");
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	if (number)
		fprintf(stderr, ": %s", strerror(number));
	fprintf(stderr, "\n");
	if (status)
		exit(status);
}

extern PyObject *PyInit__cffi_backend(void);
extern PyObject *PyInit__core(void);
extern PyObject *PyInit__bpf(void);
extern PyObject *PyInit__dwarf(void);

static const struct _inittab modules[] = {
	{ "_cffi_backend", PyInit__cffi_backend },
	{ "msgspec._core", PyInit__core },
	{ "retsnoop_py._bpf", PyInit__bpf },
	{ "retsnoop_py._dwarf", PyInit__dwarf },
	{ NULL, NULL },
};

/* The path of this file, without links. Where /proc is not mounted, by what it was started as. */
static char *own_path(void)
{
	static char path[PATH_MAX];
	const char *started = (const char *)getauxval(AT_EXECFN);
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length > 0) {
		path[length] = '\0';
		return path;
	}
	return started ? realpath(started, NULL) : NULL;
}

static void fail(PyStatus status)
{
	if (PyStatus_IsExit(status))
		exit(status.exitcode);
	fprintf(stderr, "retsnoop-py: cannot start: %s%s%s\n", status.func ? status.func : "",
		status.func ? ": " : "", status.err_msg ? status.err_msg : "no memory");
	exit(1);
}

static void check(PyStatus status)
{
	if (PyStatus_Exception(status))
		fail(status);
}

static void start(char *path, int argc, char **argv, int is_python)
{
	PyPreConfig before;
	PyConfig config;
	wchar_t **const places[] = {
		&config.executable,	 &config.base_executable, &config.home,
		&config.prefix,		 &config.base_prefix,	  &config.exec_prefix,
		&config.base_exec_prefix
	};

	PyPreConfig_InitIsolatedConfig(&before);
	before.utf8_mode = 1; /* whatever the locale is, or is not */
	check(Py_PreInitialize(&before));
	PyConfig_InitIsolatedConfig(&config);
	config.parse_argv = is_python;
	config.install_signal_handlers = 1; /* Ctrl-C */
	config.write_bytecode = 0;
	config.site_import = 0;
	config.pathconfig_warnings = 0;
	for (size_t at = 0; at < sizeof(places) / sizeof(places[0]); at++)
		check(PyConfig_SetBytesString(&config, places[at], path));
	check(PyConfig_SetBytesString(&config, &config.program_name, path));
	check(PyConfig_SetBytesString(&config, &config.stdlib_dir, path));
	config.module_search_paths_set = 1;
	check(PyWideStringList_Append(&config.module_search_paths, config.executable));
	check(PyConfig_SetBytesArgv(&config, argc, argv));
	check(Py_InitializeFromConfig(&config));
	PyConfig_Clear(&config);
}

/* Status 1 is a defect of ours, 69 a lack: docs/exit-status.md. */
static int run(void)
{
	PyObject *module, *done = NULL;

	module = PyImport_ImportModule("retsnoop_py.cli.start");
	if (module)
		done = PyObject_CallMethod(module, "program", NULL);
	if (!done)
		PyErr_Print(); /* of SystemExit it does not return */
	return 1;
}

int main(int argc, char **argv)
{
	int is_python = argc > 1 && strcmp(argv[1], "--python") == 0;
	char *path = own_path();

	if (!path) {
		fprintf(stderr,
			"retsnoop-py: cannot find its own file: %s; mount /proc, or start it by its "
			"whole path\n",
			strerror(errno));
		return 69;
	}
	if (PyImport_ExtendInittab((struct _inittab *)modules) < 0)
		fail(PyStatus_NoMemory());
	if (is_python) {
		argv[1] = argv[0];
		start(path, argc - 1, argv + 1, 1);
	} else {
		start(path, argc, argv, 0);
	}
	/* by this name others are known to be asked, too */
	if (PySys_SetObject("frozen", Py_True) < 0)
		fail(PyStatus_NoMemory());
	return is_python ? Py_RunMain() : run();
}
