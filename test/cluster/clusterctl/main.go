// Command clusterctl starts a Kubernetes on this machine for people, and ends it:
//
//	clusterctl [-nodes N] up     prints the path of a kubeconfig
//	clusterctl down              ends the cluster that up has started
//	clusterctl build             only builds what a cluster is made of
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"vmop/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	nodes := flag.Int("nodes", 1, "how many nodes")
	flag.Parse()
	err := run(ctx, flag.Args(), *nodes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clusterctl:", err)
		os.Exit(1)
	}
}

// link is where down finds the cluster.
const link = "build/cluster"

func run(ctx context.Context, verbs []string, nodes int) error {
	if len(verbs) != 1 {
		return errors.New("want up, down or build")
	}
	switch verbs[0] {
	case "build":
		_, err := cluster.Programs(ctx)
		return err
	case "up":
		return up(ctx, nodes)
	case "down":
		return down(ctx)
	}
	return fmt.Errorf("there is no verb %q: want up, down or build", verbs[0])
}

func up(ctx context.Context, nodes int) error {
	if _, err := os.Stat(link); err == nil {
		return errors.New("a cluster runs already; make cluster-down ends it")
	}
	begin := time.Now()
	c, err := cluster.Up(ctx, cluster.Options{Nodes: nodes, Log: func(line string) {
		fmt.Fprintf(os.Stderr, "%4.1f s  %s\n", time.Since(begin).Seconds(), line)
	}})
	if err != nil {
		return err
	}
	if err := c.Expose(ctx); err != nil {
		return errors.Join(err, c.Down(ctx))
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return errors.Join(err, c.Down(ctx))
	}
	if err := os.Symlink(c.Dir, link); err != nil {
		return errors.Join(err, c.Down(ctx))
	}
	fmt.Printf("export KUBECONFIG=%s PATH=%s:$PATH\n", c.Kubeconfig, filepath.Join(c.Programs, "bin"))
	return nil
}

func down(ctx context.Context) error {
	dir, err := os.Readlink(link)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := cluster.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(c.Down(ctx), os.Remove(link))
}
