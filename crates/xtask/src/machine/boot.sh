# Becomes process 1 of a separate machine: its files are $1, its changes are in memory at $2, its control group is $3.
set -e
echo 0 >"$3/cgroup.procs"
mount --make-rprivate /
mount -t tmpfs none "$2"
root=$2/root
mkdir "$2/upper" "$2/work" "$root"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" none "$root"
mount -t proc none "$root/proc"
mount -t sysfs -o ro none "$root/sys"
mount -t tmpfs none "$root/run"
mount -t tmpfs none "$root/tmp"
mount -t tmpfs none "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t tmpfs none "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 none "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ip link set lo up
cd "$root"
# A view of control groups that begins with its own.
exec unshare --cgroup sh -c '
    mount -t tmpfs none sys/fs
    mkdir sys/fs/cgroup
    mount -t cgroup2 none sys/fs/cgroup
    pivot_root . mnt
    umount -l /mnt
    exec env -i container=crore PATH=/usr/sbin:/usr/bin:/sbin:/bin /usr/lib/systemd/systemd --system --log-target=console --unit=multi-user.target'
