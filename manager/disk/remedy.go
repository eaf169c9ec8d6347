package disk

import (
	"time"
)

// Reasons for imports, in addition to the reasons in package diskimage, which docs/tasks/import.md lists.
const (
	reasonImported      = "Imported"
	ReasonImporting     = "Importing"
	ReasonStarting      = "ImportStarting" // the pod isn't running yet
	ReasonUnschedulable = "Unschedulable"  // the pod fits on no node
	ReasonImagePull     = "ImagePull"      // of the pod, not of the disk's source
	ReasonPodGone       = "ImportPodDeleted"
	ReasonPodFailed     = "ImportPodFailed" // without an error from the import itself
	ReasonPodTaken      = "PodNameTaken"
	ReasonSecretMissing = "SecretMissing"
	ReasonSecretHost    = "SecretNotForServer" // its annotation doesn't include the server
	ReasonUpload        = "WaitForUserUpload"  // of the image, by a user
	ReasonSourceChanged = "SourceChanged"      // during the copy
)

// A remedy is what can make a failed import succeed.
type remedy int

const (
	// byTime: the failure may resolve itself, such as an unavailable network, server or node.
	byTime remedy = iota
	// byServer: someone must change the server that has the image. The manager can't see when that happens.
	byServer
	// byChange: the image, the disk or the Secret must change.
	byChange
)

// remedyOf returns the remedy for a reason; byTime for unknown reasons.
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

// backoffAfter returns the delay before the next attempt after this many failures, and whether to try again.
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
