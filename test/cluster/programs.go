package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"vmop/test/program"
)

// kubernetesVersion is the version of Kubernetes, and oldestVersion the oldest supported version. The modules
// tools/kubernetes and tools/kubernetes-oldest require the same versions.
const (
	kubernetesVersion = "v1.37.2"
	oldestVersion     = "v1.34.0"
)

// programs are the names under which kubeall runs as different programs.
var programs = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet",
}

// packages lists packages of the distribution to unpack, each with a file that it contains.
var packages = map[string]string{
	"containerd":                  "usr/bin/containerd",
	"runc":                        "usr/sbin/runc",
	"containernetworking-plugins": "usr/lib/cni/bridge",
}

// Programs builds and unpacks missing programs, and returns their folder. Its subfolder bin contains executables, root
// the unpacked packages, and images the images of a node. With [program.Folder] it skips compiling. log receives a line
// for each slow step.
func Programs(ctx context.Context, log func(string)) (dir string, err error) {
	dir, unlock, err := lockFolder(ctx, kubernetesVersion, log)
	if err != nil {
		return "", err
	}
	defer unlock()
	for _, sub := range []string{"root", "images"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return "", fmt.Errorf("folder for the programs of Kubernetes: %w", err)
		}
	}
	if os.Getenv(program.Folder) == "" { // otherwise make has built them
		if err := buildKubernetes(ctx, dir, log); err != nil {
			return "", err
		}
	}
	if err := unpackPackages(ctx, filepath.Join(dir, "root"), packages); err != nil {
		return "", err
	}
	return dir, systemImages(dir)
}

// oldestPrograms does the same with the oldest supported version of Kubernetes. It links everything
// else from newest, the folder of the newest version. See docs/decisions/0202-oldest-kubernetes.md.
func oldestPrograms(ctx context.Context, newest string, log func(string)) (dir string, err error) {
	dir, unlock, err := lockFolder(ctx, oldestVersion, log)
	if err != nil {
		return "", err
	}
	defer unlock()
	root, err := program.Root(ctx)
	if err != nil {
		return "", err
	}
	if err := compileModule(ctx, log, "kubeall "+oldestVersion, filepath.Join(root, "tools/kubernetes-oldest"),
		"-ldflags", linkerFlags(oldestVersion), "-o", filepath.Join(dir, "bin/kubeall"), "./kubeall"); err != nil {
		return "", err
	}
	links := map[string]string{"root": filepath.Join(newest, "root"), "images": filepath.Join(newest, "images")}
	for _, name := range programs {
		links["bin/"+name] = "kubeall"
	}
	for _, name := range []string{"etcd", "kubectl", "pause", "clusterctl"} {
		links["bin/"+name] = filepath.Join(newest, "bin", name)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("link a program of Kubernetes: %w", err)
		}
	}
	return dir, nil
}

// lockFolder creates the cache's folder for the programs of a version, and blocks other processes until unlock is
// called.
func lockFolder(ctx context.Context, version string, log func(string)) (dir string, unlock func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, fmt.Errorf("folder for the programs of Kubernetes: %w", err)
	}
	dir = filepath.Join(cache, "vmop", "kubernetes-"+version)
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		return "", nil, fmt.Errorf("folder for the programs of Kubernetes: %w", err)
	}
	unlock, err = lockFile(ctx, filepath.Join(dir, "lock"), log)
	return dir, unlock, err
}

// lockFile blocks other processes until unlock is called.
func lockFile(ctx context.Context, path string, log func(string)) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !told {
			log("another process builds the programs of Kubernetes: waiting until it unlocks " + path)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("wait for %s: %w", path, context.Cause(ctx))
		}
	}
}

// source is the package and module from which a program is built.
type source struct{ pkg, module string }

// sources are in build order.
var sources = []source{
	{"./kubeall", "tools/kubernetes"},
	{"./kubectl", "tools/kubernetes"},
	{"./pause", "tools/kubernetes"},
	{"./test/cluster/clusterctl", "."},
}

// linkerFlags returns the same flags for each call, because the go command links again after a change.
func linkerFlags(kubernetes string) string {
	var flags strings.Builder
	flags.WriteString("-s")
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, setting := range []string{
			"gitVersion=" + kubernetes, "gitMajor=1", "gitMinor=" + strings.Split(kubernetes, ".")[1],
			"gitTreeState=clean", "gitCommit=none", "buildDate=2026-01-01T00:00:00Z",
		} {
			fmt.Fprintf(&flags, " -X %s.%s", pkg, setting)
		}
	}
	return flags.String()
}

// buildKubernetes compiles Kubernetes if its sources have changed.
func buildKubernetes(ctx context.Context, dir string, log func(string)) error {
	root, err := program.Root(ctx)
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "bin")
	if _, err := os.Stat(filepath.Join(bin, "kubeall")); err != nil {
		log("building Kubernetes " + kubernetesVersion + " and etcd from their sources into " + bin +
			": about 10 minutes on two idle CPUs, and 4 GB of Go's caches; next time it is there")
	}
	for _, from := range sources {
		name := filepath.Base(from.pkg)
		if _, err := os.Readlink(filepath.Join(bin, name)); err == nil { // an earlier version was part of kubeall
			if err := os.Remove(filepath.Join(bin, name)); err != nil {
				return err
			}
		}
		if err := compileModule(ctx, log, name, filepath.Join(root, from.module), "-ldflags",
			linkerFlags(kubernetesVersion), "-o",
			filepath.Join(bin, name), from.pkg); err != nil {
			return err
		}
	}
	for _, name := range programs {
		if err := os.Symlink("kubeall", filepath.Join(bin, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("name a program of Kubernetes: %w", err)
		}
	}
	return nil
}

// unpackPackages unpacks the distribution's packages without installing them, so that their services don't start.
func unpackPackages(ctx context.Context, root string, packages map[string]string) error {
	for name, proof := range packages {
		if _, err := os.Stat(filepath.Join(root, proof)); err == nil {
			continue
		}
		if err := unpackOne(ctx, root, name); err != nil {
			return err
		}
	}
	return nil
}

func unpackOne(ctx context.Context, root, name string) error {
	dir, err := os.MkdirTemp("", "deb")
	if err != nil {
		return fmt.Errorf("unpack the package %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// For the download, apt switches to an unprivileged user, who must be able to write here.
	if err := os.Chmod(dir, 0o777); err != nil {
		return fmt.Errorf("unpack the package %s: %w", name, err)
	}
	for _, words := range [][]string{
		{"sh", "-c", "apt-get download -qq " + name +
			" || { apt-get update -qq && apt-get download -qq " + name + "; }"},
		{"sh", "-c", `dpkg -x ./*.deb "$1"`, "sh", root},
	} {
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("unpack the package %s: %w\n%s", name, err, out)
		}
	}
	return nil
}
