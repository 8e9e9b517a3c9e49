"""A copy's private view of the disk: everything is read-only, and each writable folder
is covered by an overlay whose changes end with the copy. The copy also gets an IPC
namespace, for System V objects and message queues."""

import ctypes
import errno
import os
import stat

from .frames import raise_fd

MNT_DETACH = 2
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 4096, 16384, 1 << 18
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY = 1
SYS_MOUNT_SETATTR = 442

# Mount options for overlays, best first. redirect_dir allows folders to be renamed, and
# needs privileges outside of user namespaces; userxattr works inside them; volatile
# omits syncing, which disposable data does not need.
OPTIONS = (",redirect_dir=on,volatile", ",userxattr,volatile", ",userxattr", "")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def _mount(source, target, kind, flags=0, data=None):
    _check(
        _libc.mount(
            os.fsencode(source), os.fsencode(target), kind.encode() if kind else None, flags,
            data.encode() if data else None,
        ),
        "mount %s" % target,
    )


def enter(folders, first):
    """Gives this process its private view of the disk. Returns the index of the OPTIONS
    that worked, for the next copy, and notices about what failed."""
    cwd = _cwd()
    try:
        _new_namespace()
    except OSError as error:
        return first, [_notice(error), _objects_notice(error)]
    notices = _part_objects()
    try:
        view = _cover(folders, first)
    except OSError as error:
        view = first
        notices.append(_notice(error))
    if os.readlink("/proc/self") != str(os.getpid()):
        try:
            _mount("proc", "/proc", "proc", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
        except OSError:
            pass  # the old /proc only shows more processes, which cannot be signalled
    if cwd is not None:
        try:
            os.chdir(cwd)
        except OSError:
            os.chdir(folders[0])
    try:
        _hold_fast()
    except OSError as error:
        notices.append(_notice(error))
    return view, notices


def _cwd():
    """The working directory, or None if it has been removed. The copy then stays in the
    removed one, where no file can be made."""
    try:
        return os.getcwd()
    except OSError:
        return None


def _part_objects():
    """Gives this process its own System V objects and message queues."""
    if _libc.unshare(CLONE_NEWIPC) == 0:
        return []
    number = ctypes.get_errno()
    return [_objects_notice(OSError(number, os.strerror(number)))]


def _objects_notice(error):
    return {
        "kind": "objects_not_isolated",
        "text": "objects: not isolated: this read-only call can change System V objects and message queues of the session (%s)"
        % error.strerror,
    }


CAP_SYS_ADMIN = 21
_CAPABILITY_VERSION = 0x20080522
_PR_CAPBSET_DROP = 24


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Capabilities(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable")]


def _hold_fast():
    """Gives up CAP_SYS_ADMIN, for this process and all that it starts, so that code
    cannot unmount the view. Code that makes a user namespace has the capability again in
    that namespace, but there these mounts are locked. An ordinary user gives up all
    capabilities: it had none of use before the view was made."""
    header = _CapabilityHeader(_CAPABILITY_VERSION, 0)
    held = (_Capabilities * 2)()
    if os.geteuid() == 0:
        # Only root gets capabilities of the bounding set by an exec.
        _check(_libc.prctl(_PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0), "drop a capability")
        _check(_libc.capget(ctypes.byref(header), held), "read capabilities")
        for name in ("effective", "permitted", "inheritable"):
            setattr(held[0], name, getattr(held[0], name) & ~(1 << CAP_SYS_ADMIN))
    # Capabilities that are no longer permitted and inheritable are no longer ambient.
    _check(_libc.capset(ctypes.byref(header), held), "drop capabilities")


def _notice(error):
    return {
        "kind": "disk_not_isolated",
        "text": "disk: not isolated: files that this read-only call writes are the session's own (%s, %s)"
        % (error.strerror or error, errno.errorcode.get(error.errno, "?")),
    }


def _new_namespace():
    """Enters a mount namespace. Root keeps its user namespace, which has all its users. An
    ordinary user may be allowed to mount in this one, but has not all capabilities that an
    overlay takes; a new one gives it these."""
    if os.geteuid() == 0:
        if _libc.unshare(CLONE_NEWNS) == 0:
            return
        number = ctypes.get_errno()
        if number != errno.EPERM:
            raise OSError(number, "unshare: %s" % os.strerror(number))
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
        with open("/proc/self/%s" % name, "w") as file:
            file.write(text)


def _cover(folders, first):
    """Covers all folders and makes everything else read-only. On failure none is covered."""
    folders, lowers = _open(folders)
    _mount("none", "/", None, MS_REC | MS_PRIVATE)
    mounted = []
    try:
        # The overlay of the first folder hides the scratch file system, which is reachable
        # only by its descriptor.
        _mount("scratch", folders[0], "tmpfs", MS_NOSUID | MS_NODEV, "mode=700")
        mounted.append(folders[0])
        first = _cover_each(folders, lowers, first, mounted)
        _make_read_only(folders)
    except OSError:
        for folder in reversed(mounted):
            _libc.umount2(os.fsencode(folder), MNT_DETACH)
        raise
    finally:
        for fd in lowers:
            os.close(fd)
    return first


def _make_read_only(folders):
    """Makes everything read-only except the mounts on the folders."""
    _set_attributes("/", AT_RECURSIVE, attr_set=MOUNT_ATTR_RDONLY)
    for folder in folders:
        _set_attributes(folder, 0, attr_clr=MOUNT_ATTR_RDONLY)


def _set_attributes(path, flags, **changes):
    attributes = _MountAttr(**changes)
    _check(
        _libc.syscall(
            SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(path), flags, ctypes.byref(attributes), ctypes.sizeof(attributes)
        ),
        "make %s read-only" % path if changes.get("attr_set") else "make %s writable" % path,
    )


def _cover_each(folders, lowers, first, mounted):
    """Covers each folder, and adds it to mounted."""
    scratch = raise_fd(os.open(folders[0], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    try:
        return _cover_from(scratch, folders, lowers, first, mounted)
    finally:
        os.close(scratch)


def _cover_from(scratch, folders, lowers, first, mounted):
    base = "/proc/self/fd/%d" % scratch
    for number in range(len(folders)):
        upper = "upper%d" % number
        os.mkdir(upper, dir_fd=scratch)
        os.mkdir("work%d" % number, dir_fd=scratch)
        # The upper folder's owner and mode become those of the overlay's root, so they must
        # be those of the lower folder.
        present = os.stat(lowers[number])
        try:
            os.chown(upper, present.st_uid, present.st_gid, dir_fd=scratch)
        except OSError:
            pass  # the owner is not mapped in this user namespace
        os.chmod(upper, present.st_mode & 0o7777, dir_fd=scratch)
    # A folder inside another one must be covered after it.
    order = sorted(range(len(folders)), key=lambda number: folders[number].count("/"))
    for number in order:
        data = "lowerdir=/proc/self/fd/%d,upperdir=%s/upper%d,workdir=%s/work%d" % (
            lowers[number], base, number, base, number,
        )
        try:
            first = _overlay(folders[number], data, first)
        except OSError as error:
            # A folder that contains locked mounts, such as those that hide a node's data
            # directory, cannot be the lower layer.
            if error.errno != errno.EINVAL or number == 0:
                raise
            _assemble(folders[number], lowers[number])
        mounted.append(folders[number])
    return first


MOST_ENTRIES = 1000
# The size in bytes of each file, and of all files together, that _assemble copies.
MOST_EACH, MOST_COPIED = 1 << 20, 16 << 20


def _assemble(target, lower):
    """Covers a folder without an overlay, by a new file system with copies of the small
    files of the lower folder. Every other entry is bind-mounted read-only. New entries
    can be made."""
    left = MOST_COPIED
    base = "/proc/self/fd/%d" % lower
    mode = os.stat(base).st_mode & 0o7777
    _mount("scratch", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=%o" % mode)
    for entry in os.listdir(base)[:MOST_ENTRIES]:
        source, place = os.path.join(base, entry), os.path.join(target, entry)
        try:
            if os.path.islink(source):
                os.symlink(os.readlink(source), place)
                continue
            copied = _copied(source, place, min(left, MOST_EACH))
            if copied is not None:
                left -= copied
                continue
            if os.path.isdir(source):
                os.mkdir(place)
            else:
                os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            _mount(source, place, None, MS_BIND | MS_REC)
        except FileNotFoundError:
            pass  # it was removed meanwhile


def _copied(source, place, most):
    """Copies a regular file of at most that many bytes and returns its length; returns
    None if it is not copied."""
    info = os.stat(source)
    if not stat.S_ISREG(info.st_mode) or info.st_size > most:
        return None
    try:
        with open(source, "rb", buffering=0) as file:
            content = file.read(most + 1)
    except PermissionError:
        return None
    if len(content) > most:
        return None
    with open(place, "wb", buffering=0) as file:
        file.write(content)
        try:
            os.fchown(file.fileno(), info.st_uid, info.st_gid)
        except OSError:
            pass  # the owner is not mapped in this user namespace
        os.fchmod(file.fileno(), info.st_mode & 0o7777)
        os.utime(file.fileno(), ns=(info.st_atime_ns, info.st_mtime_ns))
    return len(content)


def _overlay(target, data, first):
    for option in range(first, len(OPTIONS)):
        try:
            _mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, data + OPTIONS[option])
            return option
        except OSError as error:
            if option == len(OPTIONS) - 1 or error.errno not in (errno.EPERM, errno.EINVAL):
                raise
    raise OSError(errno.EINVAL, "no way to mount an overlay")


def _open(folders):
    """Returns the real paths of the folders that exist, and a descriptor of each."""
    found = {}
    for folder in folders:
        try:
            fd = raise_fd(os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        path = os.readlink("/proc/self/fd/%d" % fd)
        if found.setdefault(path, fd) != fd:
            os.close(fd)
    return list(found), list(found.values())
