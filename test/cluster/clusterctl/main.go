// Command clusterctl starts and ends a Kubernetes on this machine for manual use:
//
//	clusterctl [-nodes N] up     starts it, prints the variables to set and the folder for images
//	clusterctl load FILE...      loads container images into its nodes
//	clusterctl down              ends the cluster that up has started
//	clusterctl build             only builds the programs of a cluster
//	clusterctl guard FOLDER      ends a test's cluster when its input ends; see cluster.Guard
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
	"vmop/test/guest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	nodes := flag.Int("nodes", 1, "how many nodes")
	flag.Parse()
	err := runVerb(ctx, flag.Args(), *nodes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "clusterctl:", err)
		os.Exit(1)
	}
}

// link is the symbolic link through which down finds the cluster.
const link = "build/cluster"

func runVerb(ctx context.Context, verbs []string, nodes int) error {
	if len(verbs) > 1 && verbs[0] == "load" {
		return loadImages(ctx, verbs[1:])
	}
	if len(verbs) == 2 && verbs[0] == "guard" {
		return cluster.Guard(context.WithoutCancel(ctx), os.Stdin, verbs[1])
	}
	if len(verbs) != 1 {
		return errors.New("want up, load FILE..., down or build")
	}
	switch verbs[0] {
	case "build":
		_, err := cluster.Programs(ctx, newStepLog())
		return err
	case "up":
		return startCluster(ctx, nodes)
	case "down":
		return stopCluster(ctx)
	}
	return fmt.Errorf("there is no verb %q: want up, load FILE..., down or build", verbs[0])
}

func startCluster(ctx context.Context, nodes int) error {
	if _, err := os.Stat(link); err == nil {
		return errors.New("a cluster runs already; make cluster-down ends it")
	}
	c, err := cluster.Up(ctx, cluster.Options{Nodes: nodes, Outlives: true, Log: newStepLog()})
	if err != nil {
		return err
	}
	if err := furnishCluster(ctx, c); err != nil {
		return errors.Join(err, c.Down(context.WithoutCancel(ctx)))
	}
	fmt.Printf("# CD images and kernels for VMs are in %s\n", c.Images())
	fmt.Printf("export KUBECONFIG=%s PATH=%s:$PATH\n", c.Kubeconfig, filepath.Join(c.Programs, "bin"))
	return nil
}

// newStepLog returns a function that prints lines with the time since this call.
func newStepLog() func(string) {
	begin := time.Now()
	return func(line string) { fmt.Fprintf(os.Stderr, "%4.1f s  %s\n", time.Since(begin).Seconds(), line) }
}

// furnishCluster prepares a cluster for manual use: it makes the cluster reachable, and adds volumes and a bootable
// Linux.
func furnishCluster(ctx context.Context, c *cluster.Cluster) error {
	if err := c.Expose(ctx); err != nil {
		return err
	}
	if err := c.AddStorage(ctx); err != nil {
		return err
	}
	if _, err := guest.Build(ctx, c.Images()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	return os.Symlink(c.Dir, link)
}

func loadImages(ctx context.Context, files []string) error {
	c, err := runningCluster()
	if err != nil {
		return err
	}
	for _, file := range files {
		if file, err = filepath.Abs(file); err != nil {
			return err
		}
		if err := c.Load(ctx, file); err != nil {
			return err
		}
		fmt.Printf("%s is on the cluster's nodes\n", filepath.Base(file))
	}
	return nil
}

// runningCluster returns the cluster that up has started.
func runningCluster() (*cluster.Cluster, error) {
	dir, err := os.Readlink(link)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errors.New("no cluster runs; make cluster-up starts one")
	}
	if err != nil {
		return nil, err
	}
	return cluster.Open(dir)
}

func stopCluster(ctx context.Context) error {
	if _, err := os.Lstat(link); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	c, err := runningCluster()
	if err != nil {
		return err
	}
	return errors.Join(c.Down(ctx), os.Remove(link))
}
