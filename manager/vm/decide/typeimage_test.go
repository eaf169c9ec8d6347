package decide

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/vmtypes/signature"
)

// The manager contacts a registry for a VM's type only when it needs the type or a newer version.
func TestNextTypeImage(t *testing.T) {
	t.Parallel()
	key, err := signature.ReadKey([]byte("-----BEGIN PUBLIC KEY-----\n" +
		"MCowBQYDK2VwAyEAlZZEg+AROreSfJanRDz4eWlKb4TPM0oH9glmiM63naE=\n-----END PUBLIC KEY-----\n"))
	require.NoError(t, err)
	const image, full = "types/mine:1", "docker.io/types/mine:1"
	digest := "sha256:" + strings.Repeat("1", 64)
	pinned := "docker.io/types/mine@" + digest
	pin := func(s *Snapshot) { s.VM.Status.VMTypeImage = &v1.VMTypeImage{Image: image, Digest: digest} }
	has := func(s *Snapshot) {
		s.Types = objects.NewMetadata(objects.KindConfigMap)
		s.Types.Annotations = map[string]string{objects.AnnotationTypeImage: pinned}
	}
	pod := func(s *Snapshot) { s.Pod = &corev1.Pod{} }
	ends := func(s *Snapshot) {
		s.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: s.Now}}}
	}
	stays := func(s *Snapshot) { s.VM.Spec.VM.State = v1.Stopped }
	keeps := func(s *Snapshot) { s.VM.Spec.VMType.Update = new(false) }
	started := func(s *Snapshot) { s.VM.Status.VMType = "mine" }
	untrusted := func(s *Snapshot) { s.Settings.Trust.TypeImages = nil }
	none := func(s *Snapshot) { s.VM.Spec.VMType.Image = "" }
	byDigest := func(s *Snapshot) {
		s.VM.Spec.VMType.Image = "types/mine@" + digest
		s.VM.Status.VMTypeImage.Image = s.VM.Spec.VMType.Image
	}
	range1 := func(s *Snapshot) { s.VM.Spec.VMType.Image = "types/mine:^1" }
	signed := func(s *Snapshot) {
		s.Settings.Trust.TypeKeys = []signature.Key{key}
		s.Types.Annotations[objects.AnnotationTypeSigner] = key.Fingerprint()
	}
	requires := func(s *Snapshot) { s.Settings.Trust.TypeKeys = []signature.Key{key} }
	const second = "docker.io/types/mine:2"
	other := func(s *Snapshot) { s.VM.Spec.VMType.Image = "types/mine:2" }
	for name, row := range map[string]struct {
		given []func(*Snapshot)
		want  TypeImage
	}{
		"never asked":          {nil, TypeImage{Reference: full}},
		"not trusted":          {[]func(*Snapshot){untrusted}, TypeImage{Settled: true}},
		"before a start":       {[]func(*Snapshot){pin, has}, TypeImage{Reference: full, Optional: true}},
		"the ConfigMap's gone": {[]func(*Snapshot){pin}, TypeImage{Reference: full}},
		"running":              {[]func(*Snapshot){pin, has, pod}, TypeImage{Settled: true}},
		"running without it":   {[]func(*Snapshot){pin, pod}, TypeImage{Reference: pinned}},
		"restarting":           {[]func(*Snapshot){pin, has, ends}, TypeImage{Reference: full, Optional: true}},
		"stopped":              {[]func(*Snapshot){pin, has, stays}, TypeImage{Settled: true}},
		"kept, not started":    {[]func(*Snapshot){pin, has, keeps}, TypeImage{Settled: true}},
		"kept, and gone":       {[]func(*Snapshot){pin, keeps}, TypeImage{Reference: pinned}},
		"kept by the runner":   {[]func(*Snapshot){pin, keeps, started}, TypeImage{Settled: true}},
		"a digest":             {[]func(*Snapshot){pin, has, byDigest}, TypeImage{Settled: true}},
		"another":              {[]func(*Snapshot){pin, has, pod, other}, TypeImage{Reference: second}},
		"a range":              {[]func(*Snapshot){range1}, TypeImage{Reference: "docker.io/types/mine:^1"}},
		"signed, running":      {[]func(*Snapshot){pin, has, signed, pod}, TypeImage{Settled: true}},
		"unsigned, running":    {[]func(*Snapshot){pin, has, requires, pod}, TypeImage{Reference: pinned}},
		"unsigned, starting":   {[]func(*Snapshot){pin, has, requires}, TypeImage{Reference: full}},
		"no more":              {[]func(*Snapshot){pin, has, none}, TypeImage{Remove: true, Settled: true}},
		"never":                {[]func(*Snapshot){none}, TypeImage{Settled: true}},
	} {
		s := is().Snapshot
		s.Pod = nil
		s.VM.Spec.VMType.Image, s.VM.Spec.VM.State = image, v1.Running
		s.Settings.Trust.TypeImages = []objects.ImagePattern{"types/*"}
		for _, change := range row.given {
			change(s)
		}
		got, err := NextTypeImage(s)
		require.NoError(t, err)
		require.Equal(t, row.want, got, name)
	}
}
