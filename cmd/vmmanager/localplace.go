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

	"vmop/cli"
	"vmop/durable"
	"vmop/regular"
	"vmop/runner/config"
)

// A localPlace is the folder with what vmmanager local keeps: its address, its sessions, and the socket for links. Each
// --folder has another one.
type localPlace string

// systemPlace is the folder of the service vmmanager-local.
const systemPlace localPlace = "/var/lib/vmmanager"

// placeOf returns the folder of this user for the VMs of a folder; "" are the usual ones.
func placeOf(env config.Env, folder string) (localPlace, error) {
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

func (p localPlace) sessions() string { return filepath.Join(string(p), "sessions.json") }
func (p localPlace) socket() string   { return filepath.Join(string(p), "link.sock") }

// reserve creates the folder and locks it for this process as long as the file is open. The command logs in to the
// pages of another process.
func (p localPlace) reserve(command string) (*os.File, error) {
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

// An origin is where browsers find the pages. Browsers separate cookies by hosts, not by ports: another server of this
// computer, such as a guest's, must not have the same host.
type origin struct {
	// Address is one of 127.0.0.0/8, with the port that was free at first.
	Address netip.AddrPort `json:"address"`
	// Name is the host if a user chooses the address 127.0.0.1 or ::1, which others have, too.
	Name string `json:"name"`
}

// newOrigin chooses one at random. Addresses that begin with 127.0 are in use: 127.0.0.53 and 127.0.1.1, for example.
func newOrigin() origin {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return origin{
		Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 16 + random[0]%224, random[1], 1 + random[2]%254}), 0),
		Name:    "vmop-" + hex.EncodeToString(random[4:]) + ".localhost",
	}
}

// origin returns what was chosen before, or else another one.
func (p localPlace) origin() (origin, error) {
	const longest = 1 << 10
	text, err := regular.ReadFile(p.originFile(), longest)
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

// keep writes an origin.
func (p localPlace) keep(o origin) error {
	text, err := json.Marshal(o)
	if err == nil {
		err = durable.Write(p.originFile(), text, 0o600, durable.Synced)
	}
	if err != nil {
		return fmt.Errorf("cannot keep the address of the pages: %w", err)
	}
	return nil
}

// bind listens on an address of this computer only, because the pages may do everything. Without a given address it
// uses that of the place. It returns the host with the port that browsers must ask for.
func (p localPlace) bind(ctx context.Context, given string, log *slog.Logger) (net.Listener, string, error) {
	own, err := p.origin()
	if err != nil {
		return nil, "", err
	}
	address := own.Address.String()
	if given != "" {
		if _, _, err := net.SplitHostPort(given); err != nil {
			return nil, "", cli.UsageError{Err: fmt.Errorf(
				"--listen %s: want an address and a port such as 127.0.0.1:8080", given)}
		}
		address = given
	}
	var c net.ListenConfig
	listener, err := c.Listen(ctx, "tcp", address)
	if given == "" && errors.Is(err, unix.EADDRINUSE) {
		log.Warn("the port of the pages is in use: they get another one, and browsers have to log in again",
			"address", address)
		listener, err = c.Listen(ctx, "tcp", netip.AddrPortFrom(own.Address.Addr(), 0).String())
	}
	if err != nil {
		return nil, "", fmt.Errorf("listen for browsers: %w", err)
	}
	bound, ok := listener.Addr().(*net.TCPAddr)
	if !ok || !bound.IP.IsLoopback() {
		return nil, "", errors.Join(cli.UsageError{Err: fmt.Errorf(
			"--listen %s: others than this computer would reach it; want a loopback address such as 127.0.0.1:8080", given)},
			listener.Close())
	}
	if given == "" {
		own.Address = bound.AddrPort()
	}
	if err := p.keep(own); err != nil {
		return nil, "", errors.Join(err, listener.Close())
	}
	return listener, own.host(bound.AddrPort()), nil
}

// host returns the host with the port of pages that listen on an address.
func (o origin) host(bound netip.AddrPort) string {
	if a := bound.Addr().Unmap(); a.String() == "127.0.0.1" || a.Is6() {
		return net.JoinHostPort(o.Name, strconv.Itoa(int(bound.Port())))
	}
	return netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port()).String()
}
