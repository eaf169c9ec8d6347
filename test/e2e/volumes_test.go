package e2e_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/manager/disk"
	"vmop/manager/vm/objects"
	"vmop/test/cluster"
)

// diskSize is the size of all VM disks, independent of the requested size.
const diskSize = 16 << 20

// volumes creates a volume for every claim of the lab's storage class, like a real provisioner: folders, and loop
// devices for block volumes. All nodes can access them.
type volumes struct {
	client  client.Client
	cluster *cluster.Cluster
	dir     string
	made    map[types.UID]bool
}

// provision creates volumes until the test ends.
func provision(t testing.TB, l *lab) *volumes {
	t.Helper()
	v := &volumes{
		client: l.client, cluster: l.Cluster, dir: filepath.Join(l.Dir, "volumes"),
		made: map[types.UID]bool{},
	}
	require.NoError(t, os.Mkdir(v.dir, 0o755))
	well := true
	meanwhile(t, func(ctx context.Context) {
		err := v.round(ctx)
		if err != nil && ctx.Err() == nil && well {
			t.Logf("make volumes: %v", err) // the API server may be away
		}
		well = err == nil
	})
	return v
}

// round creates the missing volumes.
func (v *volumes) round(ctx context.Context) error {
	var claims corev1.PersistentVolumeClaimList
	if err := v.client.List(ctx, &claims); err != nil {
		return err
	}
	var err error
	for _, c := range claims.Items {
		if class := c.Spec.StorageClassName; class != nil && *class == storage && c.Spec.VolumeName == "" &&
			!v.made[c.UID] {
			err = errors.Join(err, v.volume(ctx, &c))
		}
	}
	return err
}

func (v *volumes) volume(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	path, err := v.storage(ctx, c)
	if err != nil {
		return err
	}
	err = v.client.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(c.Namespace, c.Name)},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: storage, AccessModes: c.Spec.AccessModes, VolumeMode: c.Spec.VolumeMode,
			Capacity: corev1.ResourceList{
				corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage],
			},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: c.Namespace, Name: c.Name, UID: c.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key:      corev1.LabelOSStable,
						Operator: corev1.NodeSelectorOpIn, Values: []string{"linux"},
					}},
				}}},
			},
		},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	v.made[c.UID] = true
	return nil
}

// volumeName returns the name of a claim's volume, and of its file or folder.
func volumeName(namespace, claim string) string { return namespace + "-" + claim }

// holds sets the initial content of the volume of a future claim.
func (v *volumes) holds(t testing.TB, claim string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(v.dir, volumeName(namespace, claim)), data, 0o600))
}

// storage creates the file or folder of a volume.
func (v *volumes) storage(ctx context.Context, c *corev1.PersistentVolumeClaim) (string, error) {
	path := filepath.Join(v.dir, volumeName(c.Namespace, c.Name))
	if *c.Spec.VolumeMode == corev1.PersistentVolumeFilesystem {
		return path, os.MkdirAll(path, 0o755)
	}
	size := int64(diskSize)
	if c.Labels[objects.LabelName] == disk.AppName {
		size = c.Spec.Resources.Requests.Storage().Value()
	}
	return v.cluster.Block(ctx, filepath.Base(path), size)
}
