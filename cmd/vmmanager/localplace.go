package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"vmop/internal/atomicfile"
	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/runner/config"
)

// localPlace is the folder for the state of vmmanager local: its address, its sessions, and the socket for links.
// Each --folder has a separate place.
type localPlace string

// systemPlace is the folder of the service vmmanager-local.
const systemPlace localPlace = "/var/lib/vmmanager"

// localPlaceOf returns this user's place for the VMs of a folder; "" means the default folders.
func localPlaceOf(env config.Env, folder string) (localPlace, error) {
	base := env.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		if env.HomeDir == "" {
			return "", errors.New("cannot find a folder for the state: neither XDG_STATE_HOME nor HOME is set; set one")
		}
		base = filepath.Join(env.HomeDir, ".local", "state")
	}
	place := filepath.Join(base, "vmmanager")
	if folder != "" {
		folder, err := filepath.Abs(folder)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256([]byte(folder))
		place = filepath.Join(place, hex.EncodeToString(sum[:8]))
	}
	return localPlace(place), nil
}

func (p localPlace) sessionsFile() string { return filepath.Join(string(p), "sessions.json") }
func (p localPlace) linkSocket() string   { return filepath.Join(string(p), "link.sock") }

// reservePlace creates the folder and locks it for this process until the returned file is closed. If another process
// has locked it, the error recommends command, which logs in to the pages of that process.
func (p localPlace) reservePlace(command string) (*os.File, error) {
	if err := os.MkdirAll(string(p), 0o700); err != nil {
		return nil, fmt.Errorf("cannot keep the state: %w", err)
	}
	dir, err := os.Open(string(p))
	if err == nil {
		err = errors.Join(dir.Chmod(0o700), unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(errors.New("cannot serve the pages: another process serves them; "+
			"to log in there, run: "+command), dir.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reserve the folder of the state: %w", err)
	}
	return dir, nil
}

// origin is the address of the pages in browsers. Browsers separate cookies by host, not by port. Therefore
// another server of this computer, such as a guest's server, must not have the same host.
type origin struct {
	// Address is an address in 127.0.0.0/8. Its port was free when it was chosen.
	Address netip.AddrPort `json:"address"`
	// Name is the host if the user chooses the address 127.0.0.1 or ::1, which other servers share.
	Name string `json:"name"`
}

// newOrigin chooses a random origin. It avoids addresses that start with 127.0, because some of them are in use,
// such as 127.0.0.53 and 127.0.1.1.
func newOrigin() origin {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return origin{
		Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 16 + random[0]%224, random[1], 1 + random[2]%254}), 0),
		Name:    "vmop-" + hex.EncodeToString(random[4:]) + ".localhost",
	}
}

// chosenOrigin returns the stored origin, or a new origin if none is stored.
func (p localPlace) chosenOrigin() (origin, error) {
	const longest = 1 << 10
	text, err := readfile.ReadFile(p.originFile(), longest)
	if errors.Is(err, fs.ErrNotExist) {
		return newOrigin(), nil
	}
	var o origin
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err == nil && (!o.Address.Addr().IsLoopback() || !strings.HasSuffix(o.Name, ".localhost")) {
		err = errors.New("it is not an address of this computer")
	}
	if err != nil {
		return origin{}, fmt.Errorf("cannot read the address of the pages: %w; remove %s", err, p.originFile())
	}
	return o, nil
}

func (p localPlace) originFile() string { return filepath.Join(string(p), "origin.json") }

// keepOrigin stores an origin.
func (p localPlace) keepOrigin(o origin) error {
	text, err := json.Marshal(o)
	if err == nil {
		err = atomicfile.Write(p.originFile(), text, 0o600, atomicfile.Synced)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the address of the pages: %w", err)
	}
	return nil
}

// bindLoopback listens on an address of this computer only, because the pages may do everything. If given is "", it
// uses the address of the place. It returns the host and port for browsers.
func (p localPlace) bindLoopback(ctx context.Context, given string, log *slog.Logger) (net.Listener, string, error) {
	own, err := p.chosenOrigin()
	if err != nil {
		return nil, "", err
	}
	address := own.Address.String()
	if given != "" {
		if _, _, err := net.SplitHostPort(given); err != nil {
			return nil, "", cli.UsageError{Err: fmt.Errorf(
				"--listen %s: must be an address and a port such as 127.0.0.1:8080", given)}
		}
		address = given
	}
	var c net.ListenConfig
	listener, err := c.Listen(ctx, "tcp", address)
	if given == "" && errors.Is(err, unix.EADDRINUSE) {
		log.Warn("the port of the pages is in use: they get another port, and browsers have to log in again",
			"address", address)
		listener, err = c.Listen(ctx, "tcp", netip.AddrPortFrom(own.Address.Addr(), 0).String())
	}
	if err != nil {
		return nil, "", fmt.Errorf("listen for browsers: %w", err)
	}
	bound, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !bound.IP.IsLoopback() {
		return nil, "", errors.Join(cli.UsageError{Err: fmt.Errorf(
			"--listen %s: others than this computer would reach it; use a loopback address such as 127.0.0.1:8080", given)},
			listener.Close())
	}
	if given == "" {
		own.Address = bound.AddrPort()
	}
	if err := p.keepOrigin(own); err != nil {
		return nil, "", errors.Join(err, listener.Close())
	}
	return listener, own.hostWithPort(bound.AddrPort()), nil
}

// hostWithPort returns the host and port of pages that listen on an address.
func (o origin) hostWithPort(bound netip.AddrPort) string {
	if a := bound.Addr().Unmap(); a.String() == "127.0.0.1" || a.Is6() {
		return net.JoinHostPort(o.Name, strconv.Itoa(int(bound.Port())))
	}
	return netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port()).String()
}
