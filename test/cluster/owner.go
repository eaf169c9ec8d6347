package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// released is the owner's message after it has ended the cluster itself.
const released = "released\n"

// tieToOwner starts a guard that ends the cluster when this process ends for any reason. The guard waits for the end of
// a pipe that only this process holds open.
func (c *Cluster) tieToOwner() error {
	log, err := os.Create(filepath.Join(c.Dir, "guard.log"))
	if err != nil {
		return fmt.Errorf("start the cluster's guard: %w", err)
	}
	defer func() { _ = log.Close() }() // the guard has inherited it
	cmd := exec.Command(filepath.Join(c.Programs, "bin/clusterctl"), "guard", c.Dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt from the keyboard is only for the owner
	if c.leash, err = cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start the cluster's guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the cluster's guard: %w", err)
	}
	go func() { _ = cmd.Wait() }() // otherwise it stays a zombie
	return nil
}

// releaseGuard tells the guard that the cluster has been removed.
func (c *Cluster) releaseGuard() error {
	if c.leash == nil {
		return nil
	}
	_, err := io.WriteString(c.leash, released)
	if err := errors.Join(err, c.leash.Close()); err != nil {
		return fmt.Errorf("release the cluster's guard: %w", err)
	}
	c.leash = nil
	return nil
}

// Guard ends the cluster in dir when owner, the pipe to the process that started it, ends without the message released.
func Guard(ctx context.Context, owner io.Reader, dir string) error {
	word, err := io.ReadAll(owner)
	if err != nil {
		return fmt.Errorf("guard the cluster in %s: %w", dir, err)
	}
	if string(word) == released {
		return nil
	}
	c, err := Open(dir)
	if err != nil {
		return err
	}
	return c.Down(ctx)
}
