package manager

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	v1 "vmop/api/v1"
	"vmop/manager/store/publish"
	"vmop/manager/vm/class"
)

// presets creates a cluster's initial classes of VMs, once. Later changes and deletions by an administrator
// remain. A ConfigMap records that the classes were created.
//
// See docs/decisions/0113-preset-classes.md.
type presets struct {
	client    client.Writer
	live      client.Reader
	namespace string
	log       *slog.Logger
}

func newPresets(mgr manager.Manager, namespace string, log *slog.Logger) *presets {
	return &presets{mgr.GetClient(), mgr.GetAPIReader(), namespace, log}
}

// The ConfigMap with the record, its key, and the key's values: done, or begun by a manager that may have been
// killed.
const (
	presetsRecord = "vm-operator-classes"
	presetsKey    = "presets"
	presetsBegun  = "begun"
	presetsDone   = "done"
)

const presetsOwner = publish.Owner

// presetsRetry is the pause between attempts, for example while the right to create classes is missing.
const presetsRetry = time.Minute

// Start implements manager.Runnable. It runs while this manager is the leader.
func (p *presets) Start(ctx context.Context) error {
	said := ""
	for {
		err := p.makePresets(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if text := err.Error(); text != said {
			said = text
			p.log.Warn("the initial classes do not exist yet", "error", text)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(presetsRetry):
		}
	}
}

// makePresets creates the classes, unless the record states that they were created or that the cluster already had
// classes.
func (p *presets) makePresets(ctx context.Context) error {
	record := &corev1.ConfigMap{}
	err := p.live.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: presetsRecord}, record)
	if apierrors.IsNotFound(err) {
		record, err = p.beginPresets(ctx)
	}
	if err != nil {
		return fmt.Errorf("look for the ConfigMap %s: %w", presetsRecord, err)
	}
	if record.Data[presetsKey] == presetsDone {
		return nil
	}
	for _, c := range class.Presets() {
		if err := p.client.Create(ctx, c, presetsOwner); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create the VirtualMachineClass %s: %w", c.Name, err)
		}
	}
	done := client.RawPatch(types.MergePatchType, []byte(`{"data": {"`+presetsKey+`": "`+presetsDone+`"}}`))
	if err := p.client.Patch(ctx, record, done, presetsOwner); err != nil {
		return fmt.Errorf("write the ConfigMap %s: %w", presetsRecord, err)
	}
	return nil
}

// beginPresets creates the record. If the cluster already has classes, the record states that the work is done.
func (p *presets) beginPresets(ctx context.Context) (*corev1.ConfigMap, error) {
	var have v1.VirtualMachineClassList
	if err := p.live.List(ctx, &have, client.Limit(1)); err != nil {
		return nil, err
	}
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: presetsRecord, Namespace: p.namespace,
		Labels: map[string]string{"app.kubernetes.io/part-of": "vm-operator"},
	}, Data: map[string]string{presetsKey: presetsBegun}}
	if len(have.Items) > 0 {
		record.Data[presetsKey] = presetsDone
	}
	return record, p.client.Create(ctx, record, presetsOwner)
}
