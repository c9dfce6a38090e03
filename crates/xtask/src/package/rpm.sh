# Installs, upgrades and erases the package $1 on a copy of this system whose changes are in memory, at $2.
# The system is Debian's, so rpm knows none of the required packages: --nodeps.
set -e
mount --make-rprivate /
mount -t tmpfs none "$2"
root=$2/root
mkdir "$2/upper" "$2/work" "$root"
mount -t overlay -o "lowerdir=/,upperdir=$2/upper,workdir=$2/work" none "$root"
mount --rbind /dev "$root/dev"
mount -t proc none "$root/proc"
mount -t tmpfs none "$root/run"
mount -t tmpfs none "$root/mnt"
cp "$1" "$root/mnt/crore.rpm"
exec chroot "$root" sh -euxc '
    unit=/usr/lib/systemd/system/crore.service
    if getent passwd crore; then userdel crore; fi
    rpm --install --nodeps /mnt/crore.rpm
    rpm --verify --nodeps crore
    test "$(stat -c %U:%G:%a /var/lib/crore)" = crore:crore:750
    test -f $unit -a -f /usr/share/man/man1/crore.1.gz -a -f /usr/share/licenses/crore/LICENSE

    # The command line of the unit, with its user and its environment.
    install -d -o crore -g crore /run/crore
    cd /var/lib/crore
    setpriv --reuid=crore --regid=crore --init-groups env RUNTIME_DIRECTORY=/run/crore \
        $(sed -n "s/^Environment=//p" $unit) CRORE_LISTEN_CLIENTS=127.0.0.1:0 CRORE_LISTEN_OPERATORS=127.0.0.1:0 \
        $(sed -n "s/^ExecStart=//p" $unit) >/mnt/output &
    timeout 60 sh -c "until grep -x ready /mnt/output; do sleep 0.1; done"
    kill -TERM $!
    wait $!
    grep "The node has stopped" /mnt/output

    echo "# changed" >>/etc/crore/crore.toml
    rpm --upgrade --force --nodeps /mnt/crore.rpm
    grep -x "# changed" /etc/crore/crore.toml
    rpm --erase crore
    test ! -e /usr/bin/crore -a ! -e $unit
    # Data and a changed configuration stay.
    test -d /var/lib/crore -a -f /etc/crore/crore.toml.rpmsave
'
