package disk_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/internal/printable"
	"vmop/manager/disk"
)

// importing returns the situation of a disk with a web server as its source, a bound claim, and no pod yet.
func importing() disk.Situation {
	d := &v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: "root", UID: "d", Generation: 1}}
	d.Spec.DataSource = &v1.VirtualDiskSource{
		Type: v1.DiskSourceHTTP,
		HTTP: &v1.HTTPSource{URL: "https://example.org/x", SecretRef: &v1.LocalSecretRef{Name: "s"}},
	}
	d.Spec.PersistentVolumeClaim.Size = resource.MustParse("1Gi")
	late := storagev1.VolumeBindingWaitForFirstConsumer
	claim := &corev1.PersistentVolumeClaim{}
	claim.Name, claim.UID, claim.OwnerReferences = "vd-root", "c", owned()
	claim.Status.Phase = corev1.ClaimBound
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim.Spec.Resources.Requests, claim.Status.Capacity = size, size
	s := disk.Situation{
		Disk: d, Claim: claim, Now: time.Unix(1<<30, 0), Secret: disk.SecretOf(d),
		Classes: disk.Classes{Known: true, Class: &storagev1.StorageClass{VolumeBindingMode: &late}},
	}
	s.Secret.Version, s.Secret.Hosts = "7", "example.org"
	return s
}

func owned() []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: "VirtualDisk", Name: "root", UID: "d", Controller: new(true)}}
}

// pod returns an import pod with this UID.
func pod(uid types.UID, gates int, phase corev1.PodPhase, said string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "vd-root-import", UID: uid, OwnerReferences: owned()}}
	p.Spec.SchedulingGates = make([]corev1.PodSchedulingGate, gates)
	p.Status.Phase = phase
	if said != "" {
		s := corev1.ContainerStatus{Name: "import"}
		s.State.Terminated = &corev1.ContainerStateTerminated{Message: said, ExitCode: 1}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
	}
	return p
}

// record makes the status show this pod.
func record(s *disk.Situation, uid types.UID) { s.Disk.Status.Import = &v1.DiskImport{Pod: uid} }

func TestSteps(t *testing.T) {
	t.Parallel()
	const good = `{"reason": "Imported", "format": "qcow2", "virtualSize": 3, "transferred": 2, "warnings": ["w"]}`
	done := metav1.Unix(5, 0)
	for name, row := range map[string]struct {
		change func(*disk.Situation)
		step   disk.Step
		phase  v1.DiskPhase
		reason string
		pod    types.UID // recorded in the status
	}{
		"begins": {func(*disk.Situation) {}, disk.MakePod, v1.DiskProvisioning, disk.ReasonStarting, ""},
		"without a Secret": {func(s *disk.Situation) {
			s.Secret.Version = ""
		}, disk.Nothing, v1.DiskPending, disk.ReasonSecretMissing, ""},
		"a Secret of other servers": {func(s *disk.Situation) {
			s.Secret.Hosts = "images.example.org, example.org:8443"
		}, disk.Nothing, v1.DiskPending, disk.ReasonSecretHost, ""},
		"without a volume": {func(s *disk.Situation) {
			s.Claim.Status.Phase = ""
		}, disk.Nothing, v1.DiskWaiting, disk.ReasonConsumer, ""},
		"a VM wants it": {func(s *disk.Situation) {
			s.Claim.Status.Phase, s.Wanted = "", true
		}, disk.MakePod, v1.DiskProvisioning, disk.ReasonStarting, ""},
		"a volume is made": {func(s *disk.Situation) {
			s.Claim.Status.Phase, s.Classes.Class.VolumeBindingMode = "", nil
		}, disk.Nothing, v1.DiskPending, disk.ReasonProvisioning, ""},
		"made": {func(s *disk.Situation) {
			s.Pod = pod("p", 1, corev1.PodPending, "")
		}, disk.Nothing, v1.DiskProvisioning, disk.ReasonStarting, "p"},
		"recorded": {func(s *disk.Situation) {
			s.Pod = pod("p", 1, "", "")
			record(s, "p")
		}, disk.StartPod, v1.DiskProvisioning, disk.ReasonStarting, "p"},
		"runs": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodRunning, "")
			record(s, "p")
		}, disk.Nothing, v1.DiskProvisioning, disk.ReasonImporting, "p"},
		"runs unrecorded": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodRunning, "")
		}, disk.RemovePod, v1.DiskProvisioning, disk.ReasonStarting, ""},
		"another's": {func(s *disk.Situation) {
			s.Pod = pod("q", 1, "", "")
			record(s, "p")
		}, disk.RemovePod, v1.DiskProvisioning, disk.ReasonPodGone, ""},
		"gone": {func(s *disk.Situation) { record(s, "p") }, disk.Nothing, v1.DiskProvisioning, disk.ReasonPodGone, ""},
		"not ours": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, "", "")
			s.Pod.OwnerReferences = nil
		}, disk.Nothing, v1.DiskFailed, disk.ReasonPodTaken, ""},
		"being deleted": {func(s *disk.Situation) {
			s.Pod = pod("p", 1, "", "")
			s.Pod.DeletionTimestamp = &done
		}, disk.Nothing, v1.DiskProvisioning, disk.ReasonStarting, ""},
		"succeeded": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodSucceeded, good)
			record(s, "p")
		}, disk.Nothing, v1.DiskReady, "", ""},
		"whole": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodSucceeded, good)
			whole(s)
		}, disk.RemovePod, v1.DiskReady, "", ""},
		"whole, a late pod": {func(s *disk.Situation) {
			s.Pod = pod("q", 1, "", "")
			whole(s)
		}, disk.RemovePod, v1.DiskReady, "", ""},
		"says good, failed": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodFailed, good)
			record(s, "p")
		}, disk.Nothing, v1.DiskProvisioning, disk.ReasonPodFailed, ""},
		"reported nothing": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodSucceeded, "x")
			record(s, "p")
		}, disk.Nothing, v1.DiskProvisioning, disk.ReasonPodFailed, ""},
		"failed": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodFailed, `{"reason": "ChecksumMismatch", "message": "m"}`)
			record(s, "p")
		}, disk.Nothing, v1.DiskFailed, "ChecksumMismatch", ""},
		"evicted": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodFailed, "")
			s.Pod.Status.Reason = "Evicted"
			record(s, "p")
		}, disk.Nothing, v1.DiskProvisioning, disk.ReasonPodFailed, ""},
		"no node": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodPending, "")
			s.Pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: "False", Reason: "Unschedulable",
			}}
			record(s, "p")
		}, disk.Nothing, v1.DiskProvisioning, disk.ReasonUnschedulable, "p"},
		"no image": {func(s *disk.Situation) {
			s.Pod = pod("p", 0, corev1.PodPending, "x")
			s.Pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"},
			}
			record(s, "p")
		}, disk.Nothing, v1.DiskProvisioning, disk.ReasonImagePull, "p"},
		"by quota": {func(s *disk.Situation) {
			s.Refused = &disk.Refusal{Reason: disk.ReasonQuota}
		}, disk.MakePod, v1.DiskPending, disk.ReasonQuota, ""},
		"made larger": {func(s *disk.Situation) {
			s.Disk.Spec.PersistentVolumeClaim.Size = resource.MustParse("2Gi")
		}, disk.Grow, v1.DiskPending, disk.ReasonGrowing, ""},
		"lost volume": {func(s *disk.Situation) {
			s.Claim.Status.Phase = corev1.ClaimLost
		}, disk.Nothing, v1.DiskFailed, disk.ReasonClaimLost, ""},
		"disk deleted": {func(s *disk.Situation) {
			s.Disk.DeletionTimestamp = &done
		}, disk.Nothing, v1.DiskTerminating, disk.ReasonDeletion, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := importing()
			row.change(&s)
			require.Equal(t, row.step, disk.Next(s))
			is := disk.StatusOf(s)
			require.Equal(t, row.phase, is.Phase, is.Message)
			require.Equal(t, row.reason, is.Reason)
			require.Equal(t, row.pod, is.Import.Pod)
			ready := meta.IsStatusConditionTrue(is.Conditions, v1.DiskConditionReady)
			require.Equal(t, row.phase == v1.DiskReady, ready)
			s.Disk.Status = is
			what, _, _ := disk.ForVM("web", "root", s.Disk)
			require.Equal(t, row.phase == v1.DiskReady, what == disk.Take)
			require.Equal(t, is, disk.StatusOf(s), "what is written once is not written again")
		})
	}
}

func whole(s *disk.Situation) {
	s.Disk.Status.Import = &v1.DiskImport{CompletionTime: new(metav1.Unix(5, 0))}
}

// A failed import is retried only when that can help.
func TestRetries(t *testing.T) {
	t.Parallel()
	fail := func(s *disk.Situation, reason string) {
		s.Pod = pod("p", 0, corev1.PodFailed, `{"reason": "`+reason+`", "message": "m"}`)
		before := s.Disk.Status.Import
		record(s, "p")
		if before != nil {
			s.Disk.Status.Import.Failures, s.Disk.Status.Import.Inputs = before.Failures, before.Inputs
		}
		s.Disk.Status = disk.StatusOf(*s)
		s.Pod = nil
	}
	s := importing()
	for _, wait := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		fail(&s, "SourceUnreachable")
		require.Equal(t, disk.Nothing, disk.Next(s))
		require.Equal(t, wait*time.Second, s.Disk.Status.Import.RetryTime.Sub(s.Now))
		s.Now = s.Now.Add(wait * time.Second)
		require.Equal(t, disk.MakePod, disk.Next(s))
	}
	s = importing()
	fail(&s, "SourceUnauthorized")
	require.Equal(t, v1.DiskFailed, s.Disk.Status.Phase)
	require.Equal(t, time.Minute, s.Disk.Status.Import.RetryTime.Sub(s.Now))
	s.Secret.Version = "8"
	require.Equal(t, disk.MakePod, disk.Next(s), "another Secret")
	s.Pod = pod("q", 1, "", "")
	require.Zero(t, disk.StatusOf(s).Import.Failures)

	s = importing()
	fail(&s, "ImageTooLarge")
	require.Nil(t, s.Disk.Status.Import.RetryTime)
	s.Now = s.Now.Add(1000 * time.Hour)
	require.Equal(t, disk.Nothing, disk.Next(s))
	s.Disk.Generation, s.Disk.Spec.PersistentVolumeClaim.Size = 2, resource.MustParse("2Gi")
	require.Equal(t, disk.Grow, disk.Next(s))
	s.Claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	require.Equal(t, disk.Nothing, disk.Next(s), "the volume is still small")
	s.Claim.Status.Capacity = s.Claim.Spec.Resources.Requests
	require.Equal(t, disk.MakePod, disk.Next(s))
}

// Every reason of an import has a known remedy.
func TestRemedies(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"SourceUnreachable": "soon", "SourceStalled": "soon", "TransferBroken": "soon",
		"TargetExists": "soon", "TargetBusy": "soon",
		"TargetFailed": "soon", "TimedOut": "soon", "Canceled": "soon", "Internal": "soon",
		"SourceNotFound": "later", "SourceUnauthorized": "later", "SourceRefused": "later",
		"CertificateInvalid": "later",
		"RedirectRefused":    "later",
		"AddressRefused":     "later",
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../diskimage/errors.go", nil, 0)
	require.NoError(t, err)
	found := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) == 0 {
			return true
		}
		literal, is := spec.Values[0].(*ast.BasicLit)
		if !is || literal.Kind != token.STRING {
			return true
		}
		reason, err := strconv.Unquote(literal.Value)
		require.NoError(t, err)
		found++
		s := importing()
		s.Pod = pod("p", 0, corev1.PodFailed, `{"reason": "`+reason+`", "message": "m"}`)
		record(&s, "p")
		got := map[time.Duration]string{10 * time.Second: "soon", time.Minute: "later", 0: ""}
		wait := time.Duration(0)
		if at := disk.StatusOf(s).Import.RetryTime; at != nil {
			wait = at.Sub(s.Now)
		}
		require.Equal(t, want[reason], got[wait], reason)
		return true
	})
	require.Greater(t, found, 25)
}

// The progress of an import is written for each percent.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := importing()
	s.Pod = pod("p", 0, corev1.PodRunning, "")
	record(&s, "p")
	s.Progress = &disk.Progress{Percent: 12, Bytes: 1200, Total: 10000, Left: 90 * time.Second, Format: "raw"}
	s.Disk.Status = disk.StatusOf(s)
	require.Equal(t, "12%", s.Disk.Status.Progress)
	want := v1.DiskImport{Pod: "p", Bytes: 1200, Total: 10000, TimeLeft: "1m30s", Format: "raw"}
	require.Equal(t, want, *s.Disk.Status.Import)
	s.Progress = &disk.Progress{Percent: 12, Bytes: 1250}
	require.Equal(t, s.Disk.Status, disk.StatusOf(s))
	s.Progress = nil
	require.Equal(t, s.Disk.Status, disk.StatusOf(s), "another manager doesn't know it yet")
}

// The Secret for a web server is sent only to the servers in its annotation. Without the annotation it is not sent.
func TestWhichServersGetASecret(t *testing.T) {
	t.Parallel()
	for hosts, urls := range map[string]map[string]bool{
		"": {"https://example.org/x": false},
		"example.org": {
			"https://example.org/x": true, "https://example.org:443/x": true, "https://EXAMPLE.org/x": true,
			"http://example.org/x": false, "https://example.org:8443/x": false, "https://a.example.org/x": false,
			"https://example.org.evil.example/x": false, "https://example.org@evil.example/x": false,
		},
		" a.example , example.org:8443,": {
			"https://a.example/x": true, "https://example.org:8443/x": true, "https://example.org/x": false,
		},
		"example.org:80":   {"http://example.org/x": true, "https://example.org/x": false},
		"[2001:db8::1]:80": {"http://[2001:db8::1]/x": true, "http://[2001:db8::2]/x": false},
		"*":                {"https://example.org/x": false},
	} {
		for url, permitted := range urls {
			s := importing()
			s.Secret.Hosts, s.Disk.Spec.DataSource.HTTP.URL = hosts, url
			if permitted {
				require.Equal(t, disk.MakePod, disk.Next(s), "%q: %s", hosts, url)
				continue
			}
			require.Equal(t, disk.Nothing, disk.Next(s), "%q: %s", hosts, url)
			is := disk.StatusOf(s)
			require.Equal(t, disk.ReasonSecretHost, is.Reason)
			require.Contains(t, is.Message, v1.AnnotationHosts)
			s.Disk.Spec.DataSource.HTTP.SecretRef = nil
			s.Secret = disk.SecretOf(s.Disk)
			require.Equal(t, disk.MakePod, disk.Next(s), "without a Secret")
		}
	}
}

// A pod's message is reduced to one line of limited length.
func TestOutcomeOfAPod(t *testing.T) {
	t.Parallel()
	const longest = 1000
	long := strings.Repeat("x", longest+1)
	for said, want := range map[string]string{
		`{"reason": "Wrong", "message": "a\nb"}`:         "Wrong: " + printable.Line("a\nb"),
		`{"reason": "Wrong", "message": "` + long + `"}`: "Wrong: " + printable.Clip(long, longest),
		`{"message": "m"}`: disk.ReasonPodFailed +
			": the import pod ended with exit code 1 and no message",
	} {
		got := disk.OutcomeOf(pod("p", 0, corev1.PodFailed, said))
		require.Equal(t, want, got.Reason+": "+got.Message)
	}
}
