package childprocess

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SocketHolders returns the processes that have a listening Unix socket open, as Holders does for a file. name is
// the path that the socket was bound to, even if the path has been removed since, or its abstract name, "@" and the
// name. No process holds the socket "". The socket must be in this network namespace.
func SocketHolders(name string) ([]ID, error) {
	if name == "" {
		return nil, nil
	}
	inode, err := listeningSocket(name)
	if err != nil {
		return nil, fmt.Errorf("find the processes that listen on %s: %w", name, err)
	}
	if inode == 0 {
		return nil, nil
	}
	socket, err := socketFiles()
	if err != nil {
		return nil, fmt.Errorf("find the processes that listen on %s: %w", name, err)
	}
	socket.inode = inode
	return holdersOf(socket)
}

// listeningSocket returns the inode of a listening socket, or 0 if there is no such socket.
func listeningSocket(name string) (inode uint64, err error) {
	file, err := os.Open("/proc/net/unix")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		const flags, number, path = 3, 6, 7 // field numbers; see proc_net_unix(5)
		fields := strings.Fields(lines.Text())
		if len(fields) <= path || fields[flags] != "00010000" || !strings.HasSuffix(lines.Text(), " "+name) {
			continue
		}
		return strconv.ParseUint(fields[number], 10, 64)
	}
	return 0, nil
}

// socketFiles returns the identity of any socket, except its inode.
func socketFiles() (fileID, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fileID{}, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	return identifyFile(procPath(os.Getpid(), "fd/"+strconv.Itoa(fd)))
}
