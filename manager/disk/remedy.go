package disk

import (
	"time"
)

// Reasons of imports beside those of package diskimage, which docs/tasks/import.md lists.
const (
	ReasonImported      = "Imported"
	ReasonImporting     = "Importing"
	ReasonStarting      = "ImportStarting" // its pod is not running yet
	ReasonUnschedulable = "Unschedulable"  // no node takes its pod
	ReasonImagePull     = "ImagePull"      // of the pod, not of the disk's source
	ReasonPodGone       = "ImportPodDeleted"
	ReasonPodFailed     = "ImportPodFailed" // without a word of the import itself
	ReasonPodTaken      = "PodNameTaken"
	ReasonSecretMissing = "SecretMissing"
	ReasonSecretHost    = "SecretNotForServer" // its annotation has other servers, or none
	ReasonUpload        = "WaitForUserUpload"  // of the image, by a user
	ReasonSourceChanged = "SourceChanged"      // while it was copied
)

// A remedy is what makes a failed import succeed.
type remedy int

const (
	// time: a network, a server, a node that is there again.
	byTime remedy = iota
	// byServer: someone has to do something where the image is, of which nothing tells.
	byServer
	// byChange: it fails as long as image, disk and Secret are as they are.
	byChange
)

// remedyOf returns the remedy for a reason. What isn't known may go away by itself.
func remedyOf(reason string) remedy {
	switch reason {
	case "SourceNotFound", "SourceUnauthorized", "SourceRefused", "CertificateInvalid", "RedirectRefused",
		"AddressRefused":
		return byServer
	case "InvalidSource", "ChecksumMismatch", "TransferTooLarge", "UnsupportedFormat", "ImageCorrupt",
		"ImageHasBackingFile", "ImageHasExternalData", "ImageEncrypted", "ImageTooLarge", "ImageEmpty", "NoDiskInImage",
		"AmbiguousImage", "NoSpace", "LimitExceeded":
		return byChange
	}
	return byTime
}

// backoffAfter returns how long the next attempt waits after so many failures, if there is one.
func backoffAfter(r remedy, failures int32) (wait time.Duration, again bool) {
	first, longest := 10*time.Second, 5*time.Minute
	switch r {
	case byChange:
		return 0, false
	case byServer:
		first, longest = time.Minute, time.Hour
	case byTime:
	}
	return min(first<<min(failures-1, 10), longest), true
}
