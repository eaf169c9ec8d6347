package process

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SocketHolders returns the processes that have a listening Unix socket open, as Holders
// does, by the path to which it was bound, also if that was removed since, or by its
// abstract name, "@" and the name; "" has none. It must be of this network namespace.
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
	return holders(socket)
}

// listeningSocket returns the inode of a listening socket; 0 if there is none.
func listeningSocket(name string) (inode uint64, err error) {
	file, err := os.Open("/proc/net/unix")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		const flags, number, path = 3, 6, 7 // of the fields; see proc_net_unix(5)
		fields := strings.Fields(lines.Text())
		if len(fields) <= path || fields[flags] != "00010000" || !strings.HasSuffix(lines.Text(), " "+name) {
			continue
		}
		return strconv.ParseUint(fields[number], 10, 64)
	}
	return 0, nil
}

// socketFiles returns the identity of any socket, but for its inode.
func socketFiles() (fileID, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fileID{}, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	return identifyFile(procPath(os.Getpid(), "fd/"+strconv.Itoa(fd)))
}
