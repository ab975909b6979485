"""The root folder of an emulated device: its paths, its programs, its read-only folders, and its free space."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

TMP = "/data/local/tmp"
CPU = "/sys/devices/system/cpu"
"""Where programs read the number of processors; ExecuTorch's thread pool aborts without it."""
OWN = "system/emulated"
"""The emulation's own files: properties, log, storage limit."""

_SH = "#!/bin/sh\n"
_PROGRAMS: dict[str, str] = {
    "getprop": r"""props=/system/emulated/props
[ $# -eq 0 ] && exec sed -n 's/^\([^=]*\)=\(.*\)$/[\1]: [\2]/p' $props
while IFS= read -r line; do [ "${line%%=*}" = "$1" ] && { printf '%s\n' "${line#*=}"; exit 0; }; done <$props
printf '%s\n' "${2-}"
""",
    "logcat": r"""log=/system/emulated/logcat lines=+1 follow=-f
while [ $# -gt 0 ]; do
  case "$1" in
    -c) : >$log; exit 0 ;;
    -g) size=$(stat -c %s $log)
        echo "main: ring buffer is 256 KiB ($size B consumed, $size B readable), max entry is 5120 B, max payload is 4068 B"
        exit 0 ;;
    -d) follow= ;;
    -t) follow=; lines=$2; shift ;;
    -T) lines=$2; shift ;;
  esac
  shift
done
case $lines in *[!0-9+]*) lines=+1 ;; esac
exec tail -n $lines $follow $log
""",
    "getconf": r"""case "$*" in
  PAGE_SIZE|PAGESIZE) exec getprop ro.product.cpu.pagesize.max ;;
esac
exec /usr/bin/getconf "$@"
""",
    "cmd": r"""case "$1 $2" in
  "power set-fixed-performance-mode-enabled") echo "$3" >/system/emulated/fixed-performance; exit 0 ;;
esac
[ "$1" = package ] || { echo "cmd: Can't find service: $1" >&2; exit 20; }
while [ $# -gt 0 ]; do
  [ "$1" != -S ] || head -c "$2" >/dev/null
  shift
done
echo 'Failure [an EMULATED device runs no apps]'
exit 1
""",
    "getenforce": "echo Enforcing\n",
    "dumpsys": r"""case "$1" in
  battery) printf 'Current Battery Service state:\n  AC powered: false\n  level: 80\n  scale: 100\n  temperature: 250\n' ;;
  thermalservice) printf 'IsStatusOverride: false\nThermal Status: 0\n' ;;
  *) echo "Can't find service: $1" >&2; exit 20 ;;
esac
""",
    "df": r"""limit=$(cat /system/emulated/storage)
[ -z "$limit" ] && exec /usr/bin/df "$@"
used=$(/usr/bin/du -sB1 --apparent-size /data | cut -f1); free=$((limit - used)); [ $free -lt 0 ] && free=0
printf 'Filesystem 1K-blocks Used Available Use%% Mounted on\n/dev/EMULATED %d %d %d %d%% /data\n' \
  $((limit / 1024)) $((used / 1024)) $((free / 1024)) $((used * 100 / limit))
""",
}


class DeviceRoot:
    """A folder as a device's `/`. `storage`: the bytes that /data may hold, None for all of the folder's disk.

    `read_only`: device paths below which nothing may be written.
    """

    def __init__(self, folder: Path, storage: int | None = None, read_only: tuple[str, ...] = ()) -> None:
        self.folder = folder.resolve()
        self.storage, self.read_only = storage, read_only
        self.used = 0

    def furnish(self, properties: Mapping[str, str]) -> None:
        """Create what every device has. The emulation's own programs and properties are written again, all else stays."""
        for name in (TMP, CPU, "/system/bin", f"/{OWN}", "/proc", "/dev", "/usr", *self.read_only):
            self.host(os.fsencode(name)).mkdir(parents=True, exist_ok=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            # As on the host: a folder that is mounted there, or a link into /usr.
            here, host = self.folder / name, Path("/", name)
            if host.is_symlink():
                if not here.is_symlink():
                    here.symlink_to(os.readlink(host).lstrip("/"))
            elif host.is_dir():
                here.mkdir(exist_ok=True)
        for name in ("possible", "present", "online"):
            self.own(f"{CPU}/{name}").write_text(f"0-{(os.cpu_count() or 1) - 1}\n")
        self.own(f"{OWN}/props").write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self.own(f"{OWN}/storage").write_text("" if self.storage is None else f"{self.storage}\n")
        self.own(f"{OWN}/logcat").touch()
        for name, text in _PROGRAMS.items():
            program = self.own(f"system/bin/{name}")
            program.write_text(_SH + text)
            program.chmod(0o755)
        shell = self.host(b"system/bin") / "sh"
        if not shell.is_symlink():
            shell.symlink_to("/bin/sh")
        self.measure()

    def measure(self) -> None:
        """Count the bytes in /data, if they are limited."""
        if self.storage is None:
            return
        files = (Path(folder, name) for folder, _, names in os.walk(self.folder / "data") for name in names)
        self.used = 0
        for path in files:
            with contextlib.suppress(FileNotFoundError):
                self.used += path.lstat().st_size

    def own(self, path: str) -> Path:
        """Return the place of a file of the emulation's own. A link that a program of the device left there is removed."""
        place = self.host(path.encode(), follow=False)
        if place.is_symlink():
            place.unlink()
        return place

    def host(self, path: bytes, *, follow: bool = True) -> Path:
        """Map a device's path to this machine: links are followed as the device would, never out of the root.

        `follow`: also if the last name is a link. Raises OSError for a loop.
        """
        wanted = [part for part in os.fsdecode(path).split("/") if part not in ("", ".")][::-1]
        top = str(self.folder)
        done: list[str] = []
        links = 0
        while wanted:
            name = wanted.pop()
            if name == "..":
                done = done[:-1]
            elif (wanted or follow) and (target := _link_target("/".join((top, *done, name)))):
                links += 1
                if links > 40:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                done = [] if target.startswith("/") else done
                wanted += [part for part in target.split("/") if part not in ("", ".")][::-1]
            else:
                done.append(name)
        return Path("/".join((top, *done)))

    def check_writable(self, folder: Path) -> None:
        """Raise OSError if the device may not write into a folder (of this machine)."""
        path = f"/{folder.relative_to(self.folder).as_posix()}/"
        if any(path.startswith(f"{shut.rstrip('/')}/") for shut in self.read_only):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if not folder.stat().st_mode & 0o200:  # even root is a plain user on the device
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def take(self, size: int) -> None:
        """Count bytes to be written. Raises OSError if the device is full."""
        if self.storage is not None and self.used + size > self.storage:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.used += size

    def give(self, size: int) -> None:
        """Count bytes that were removed."""
        self.used = max(0, self.used - size)


def _link_target(path: str) -> str:
    """Return where a link leads, '' if it is none."""
    try:
        return os.readlink(path)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
            return ""
        raise
