package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/cli"
	"vmop/manager/objects"
	"vmop/qmp"
)

func newBundle(f *flags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "support-bundle NAME", Short: "Collect into a file what an engineer needs to help", GroupID: groupLook,
		Long: "support-bundle writes NAME-support.tar.gz: the definition without cloud-init data, the pod, claims and\n" +
			"events, the runner's log, status, metrics and plan, and QEMU's answers to query commands. Passwords in\n" +
			"addresses are removed. What could not be had is in errors.txt. Look through it before you hand it on.",
	}
	f.oneVM(cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` to write to; - is standard output")
	cli.CompleteFile(cmd, "file", "gz")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, vm, err := f.find(cmd, args)
		if err != nil {
			return err
		}
		b := &bundle{files: map[string][]byte{}, passwords: passwords()}
		b.collect(cmd.Context(), c, vm)
		var text bytes.Buffer
		if err := b.write(&text, vm.Name+"-support/", time.Now()); err != nil {
			return err
		}
		if file == "-" {
			_, err := cmd.OutOrStdout().Write(text.Bytes())
			return err
		}
		file = firstOf(file, vm.Name+"-support.tar.gz")
		if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
			return fmt.Errorf("save the bundle: %w", err)
		}
		cmd.PrintErrln(file)
		return nil
	}
	return cmd
}

// A bundle is files for an engineer.
type bundle struct {
	mu    sync.Mutex
	files map[string][]byte

	passwords *regexp.Regexp
}

// add keeps a file, or why there is none.
func (b *bundle) add(name string, text []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.files["errors.txt"] = fmt.Appendf(b.files["errors.txt"], "%s: %s\n", name, cli.Printable(describe(err)))
	}
	if len(text) > 0 {
		b.files[name] = b.passwords.ReplaceAll(text, []byte("${1}***@"))
	}
}

// addYAML keeps an object.
func (b *bundle) addYAML(name string, object any, err error) {
	if err != nil {
		b.add(name, nil, err)
		return
	}
	text, err := yaml.Marshal(object)
	b.add(name, text, err)
}

// passwords finds user and password in addresses.
func passwords() *regexp.Regexp { return regexp.MustCompile(`([a-zA-Z][-+.a-zA-Z0-9]*://)[^/@\s"']+@`) }

// concurrent is how many requests are made at a time.
const concurrent = 6

// collect gets all files.
func (b *bundle) collect(ctx context.Context, c *cluster, vm *v1.VirtualMachine) {
	b.addYAML("definition.yaml", withoutSecrets(vm), nil)
	claims, err := c.claims(ctx, vm.Name)
	for i := range claims {
		claims[i].ManagedFields = nil
	}
	b.addYAML("claims.yaml", claims, err)
	subjects, err := c.subjects(ctx, vm)
	b.add("events.txt", nil, err)
	events, err := c.events(ctx, subjects)
	var list bytes.Buffer
	for _, e := range events {
		row := append([]string{lastSeen(e).UTC().Format(time.RFC3339)}, eventRow(e, time.Now())[1:]...)
		_ = cli.Table(&list, [][]string{row}) // a buffer takes everything
	}
	b.add("events.txt", list.Bytes(), err)
	p, err := podOf(vm)
	if err != nil {
		b.add("pod.yaml", nil, err)
		return
	}
	if object, err := c.core.Pods(c.namespace).Get(ctx, p.Name, metav1.GetOptions{}); err != nil {
		b.add("pod.yaml", nil, err)
	} else {
		object.ManagedFields = nil
		b.addYAML("pod.yaml", object, nil)
	}
	for file, previous := range map[string]bool{"log.txt": false, "log-previous.txt": true} {
		text, err := c.core.Pods(c.namespace).GetLogs(p.Name, &corev1.PodLogOptions{
			Container: objects.ContainerName, Previous: previous,
		}).DoRaw(ctx)
		if previous && err != nil {
			continue // there is none
		}
		b.add(file, text, err)
	}
	b.query(ctx, c, vm)
}

// query asks the runner, and QEMU.
func (b *bundle) query(ctx context.Context, c *cluster, vm *v1.VirtualMachine) {
	client := c.runner(ctx, vm)
	var group errgroup.Group
	group.SetLimit(concurrent)
	ask := func(name string, get func(context.Context, io.Writer) error) {
		group.Go(func() error {
			ctx, cancel := patient(ctx)
			defer cancel()
			var text bytes.Buffer
			err := get(ctx, &text)
			b.add(name, text.Bytes(), err)
			return nil
		})
	}
	ask("plan.txt", func(ctx context.Context, w io.Writer) error { return client.Plan(ctx, w, "why") })
	ask("metrics.txt", client.Metrics)
	ask("status.json", func(ctx context.Context, w io.Writer) error {
		s, err := client.Status(ctx)
		return errors.Join(err, cli.PrintValue(w, "json", s))
	})
	for _, command := range queries() {
		ask("qmp/"+command+".json", func(ctx context.Context, w io.Writer) error {
			answer, err := client.QMP(ctx, qmp.Command{Execute: command})
			var refused *qmp.Error
			if errors.As(err, &refused) {
				_, err = io.WriteString(w, refused.Error()+"\n") // QEMU has no such device, for example
				return err
			}
			return errors.Join(err, cli.PrintValue(w, "json", answer))
		})
	}
	_ = group.Wait() // none fails
}

// queries are the commands of QMP that only read.
func queries() []string {
	return []string{
		"query-balloon", "query-block", "query-block-jobs", "query-blockstats", "query-chardev", "query-cpus-fast",
		"query-hotpluggable-cpus", "query-iothreads", "query-jobs", "query-kvm", "query-memdev", "query-memory-devices",
		"query-memory-size-summary", "query-migrate", "query-name", "query-named-block-nodes", "query-pci",
		"query-rx-filter", "query-spice", "query-status", "query-tpm", "query-version", "query-vnc-servers",
	}
}

// removed stands for data that may have secrets.
const removed = `"(removed)"`

// withoutSecrets returns a VM without what may have secrets: cloud-init data, passwords in
// addresses, and the copy of all that which kubectl keeps.
func withoutSecrets(vm *v1.VirtualMachine) *v1.VirtualMachine {
	out := vm.DeepCopy()
	out.ManagedFields = nil
	delete(out.Annotations, corev1.LastAppliedConfigAnnotation)
	if ci := out.Spec.CloudInit; ci != nil {
		for key := range ci.MetaData {
			ci.MetaData[key] = "(removed)"
		}
		for _, data := range []**runtime.RawExtension{&ci.UserData, &ci.VendorData, &ci.NetworkConfig} {
			if *data != nil {
				*data = &runtime.RawExtension{Raw: []byte(removed)}
			}
		}
	}
	if p := out.Spec.Provisioning; p != nil && p.UserData != nil {
		p.UserData = new("(removed)")
	}
	if o := out.Spec.VM.Options; o != nil {
		var options map[string]json.RawMessage
		if json.Unmarshal(o.Raw, &options) != nil {
			o.Raw = []byte("{}")
			return out
		}
		for name := range options {
			options[name] = json.RawMessage(removed)
		}
		o.Raw, _ = json.Marshal(options) // texts can be encoded
	}
	return out
}

// write writes the files, below a folder.
func (b *bundle) write(w io.Writer, folder string, now time.Time) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		header := &tar.Header{Name: folder + name, Mode: 0o600, Size: int64(len(b.files[name])), ModTime: now}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
		if _, err := archive.Write(b.files[name]); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}
