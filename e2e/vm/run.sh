#!/bin/bash
# Runs a command as root in a virtual machine with the Linux of another Debian release, control groups of version 2, and project
# quotas:
#
#	e2e/vm/run.sh bookworm kernel/sandbox ./sandbox.test -test.v
#
# The arguments are the release (bookworm: Linux 6.1; trixie: Linux 6.12), the folder to run in, and the command. The machine sees
# the files of this one, and what it changes is lost at its end; /tmp and /var/lib/talaria are on a disk of its own. The exit
# status is the command's. The processor is emulated, which works everywhere and is about ten times slower.
#
# Needs root for apt, which installs QEMU and downloads the Linux kernel from where this machine's Debian has its packages.
set -euo pipefail
release=$1 folder=$2
shift 2
repository=$(cd "$(dirname "$0")/../.." && pwd)
cache=$repository/bin/vm/$release
mkdir -p "$cache"

packages=()
for each in qemu-system-x86_64:qemu-system-x86 modprobe:kmod busybox:busybox-static cpio:cpio mkfs.ext4:e2fsprogs; do
  PATH=$PATH:/sbin:/usr/sbin command -v "${each%%:*}" >/dev/null || packages+=("${each##*:}")
done
if [ ${#packages[@]} -gt 0 ]; then
  apt-get -qq update
  DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends "${packages[@]}" >/dev/null
fi
PATH=$PATH:/sbin:/usr/sbin

if [ ! -e "$cache/linux" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  . "$repository/e2e/testdata/debian.sh"
  prepare_release "$release" "$work"
  kernel=$(in_release apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p')
  (cd "$work" && in_release apt-get -qq download "$kernel")
  dpkg-deb -x "$work"/linux-image-*.deb "$work/files"
  [ -d "$work/files/lib" ] || ln -s usr/lib "$work/files/lib"
  depmod -b "$work/files" "$(ls "$work/files/lib/modules")"
  rm -rf "$cache/files"
  mv "$work/files" "$cache/files"
  ln -sfn "files/boot/$(ls "$cache/files/boot" | grep '^vmlinuz-')" "$cache/linux"
fi
version=$(ls "$cache/files/lib/modules")

# The first programs of the machine: they mount this one's files.
first=$(mktemp -d)
trap 'rm -rf "${work:-}" "$first"' EXIT
mkdir -p "$first"/{bin,modules,proc,sys,dev,below,above,root}
cp "$(command -v busybox)" "$first/bin/busybox"
number=100
for module in virtio_pci virtio_blk virtio-rng 9p 9pnet_virtio overlay; do
  modprobe -d "$cache/files" -S "$version" -D $module | awk '$1 == "insmod" { print $2 }'
done | awk '!seen[$0]++' | while read -r file; do
  number=$((number + 1))
  case $file in
    *.xz) xz -dc "$file" ;;
    *.zst) zstd -qdc "$file" ;;
    *) cat "$file" ;;
  esac > "$first/modules/$number.ko"
done
cat > "$first/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module 2>/dev/null; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=500000,cache=loose,ro files /below
mount -t tmpfs -o size=60% above /above; mkdir /above/files /above/work
mount -t overlay -o lowerdir=/below,upperdir=/above/files,workdir=/above/work root /root
cp /start /command /root/run/
for each in proc sys dev; do mount --move /$each /root/$each; done
exec switch_root /root /bin/bash /run/start
INIT
cat > "$first/start" <<START
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
mkdir -p /dev/pts /dev/shm /lib/modules
mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm
ln -sfn /proc/self/fd /dev/fd; for n in 0:stdin 1:stdout 2:stderr; do ln -sfn /proc/self/fd/\${n%:*} /dev/\${n#*:}; done
umount -l /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --bind "$cache/files/lib/modules" /lib/modules
for module in ext4 quota_v2 loop tun veth; do modprobe \$module; done
mkdir /run/disk /var/lib/talaria; mount -o prjquota /dev/vda /run/disk
mkdir /run/disk/tmp /run/disk/state; chmod 1777 /run/disk/tmp
mount --bind /run/disk/tmp /tmp; mount --bind /run/disk/state /var/lib/talaria
ip link set lo up; hostname vm
bash /run/command < /dev/null
status=\$?
sync
# The device that ends QEMU with this status, doubled and one more.
printf "\\\\x\$(printf %x \$status)" | dd of=/dev/port bs=1 seek=$((0xf4)) 2>/dev/null
START
printf 'cd %q && exec' "$repository/$folder" > "$first/command"
printf ' %q' "$@" >> "$first/command"
chmod +x "$first/init"
(cd "$first" && find . | cpio -o -H newc --quiet | gzip -1) > "$cache/first.gz"
rm -f "$cache/disk"
truncate -s 8G "$cache/disk"
mkfs.ext4 -q -O quota,project -E quotatype=prjquota,lazy_itable_init=1 "$cache/disk"

status=0
qemu-system-x86_64 -accel tcg -cpu max -smp "$(nproc)" -m "${MEMORY:-8G}" -nographic -no-reboot \
  -kernel "$cache/linux" -initrd "$cache/first.gz" -append "console=ttyS0 quiet panic=-1" \
  -virtfs local,path=/,mount_tag=files,security_model=none,readonly=on,multidevs=remap \
  -drive "file=$cache/disk,format=raw,if=virtio,cache=unsafe" -device virtio-rng-pci \
  -device isa-debug-exit,iobase=0xf4,iosize=1 < /dev/null | sed -u 's/\r//g; s/\x1b\[[0-9;?]*[a-zA-Z]//g; s/\x1bc//g' || status=${PIPESTATUS[0]}
rm -f "$cache/disk"
[ $((status % 2)) = 1 ] || { echo "the virtual machine ended without a result" >&2; exit 70; }
exit $((status / 2))
