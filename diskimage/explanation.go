package diskimage

import "vmop/vmstatus"

// Explanations explain why imports fail, in the order of the documentation.
var Explanations = []vmstatus.Explanation{
	explainFor("The URL, reference, checksum or credentials file is invalid", "Correct what the message names.",
		InvalidSource),
	explainFor("The server or registry lacks the image (404, 410), or the file doesn't exist", "Check the URL.",
		SourceNotFound),
	explainFor("The credentials are missing or wrong (401, 403)", "Check the credentials.", SourceUnauthorized),
	explainFor("The server sent an unexpected answer instead of the image", "Check the URL.", SourceRefused),
	explainFor("The server doesn't answer or is unavailable (5xx, 429), even after retries", "", SourceUnreachable),
	explainFor("The connection was silent for a minute, even after retries", "", SourceStalled),
	explainFor("The connection broke too often, or the length of an upload is wrong", "", TransferBroken),
	explainFor("The server's certificate is not trusted",
		"Add its authority with `caBundle`, or `--ca-file` of `vmimport`.", CertificateInvalid),
	explainFor("The server or a redirect leads to an [internal address](tasks/import.md#internal-addresses)",
		"Use a server with another address.", AddressRefused),
	explainFor("A redirect loop, more than 10 redirects, or a redirect from https to http", "Use the final URL.",
		RedirectRefused),
	explainFor("The data differs from the checksum or the layer's digest",
		"Compare the checksum with the publisher's.", ChecksumMismatch),
	explainFor("The image contains more bytes than a disk of this size needs",
		"Choose a larger size.", TransferTooLarge),
	explainFor("Another format, an archive, or an HTML page",
		"Convert the image to qcow2 or raw.", UnsupportedFormat),
	explainFor("The image or its compression is inconsistent or truncated", "Fetch it again from the publisher.",
		ImageCorrupt),
	explainFor("An overlay, snapshot or difference",
		"Merge it with its base: `qemu-img convert`.", ImageHasBackingFile),
	explainFor("The data is in other files",
		"Convert the image to one file: `qemu-img convert`.", ImageHasExternalData),
	explainFor("The image is encrypted", "Decrypt it: `qemu-img convert`.", ImageEncrypted),
	explainFor("The disk in the image is larger than the target", "Choose a larger size.", ImageTooLarge),
	explainFor("The image contains no bytes", "Check the URL.", ImageEmpty),
	explainFor("The container image lacks a file in `/disk`", "Choose another image.", NoDiskInImage),
	explainFor("The container image contains several files in `/disk`", "Choose another image.", AmbiguousImage),
	explainFor("The volume of the target or of the scratch folder is full", "Choose a larger size.", NoSpace),
	explainFor("The file already exists (`vmimport` replaces it)", "", TargetExists),
	explainFor("Another import writes to the target, or the device is mounted", "", TargetBusy),
	explainFor("The target can't be written", "Check the storage.", TargetFailed),
	explainFor("The conversion exceeded its memory or processor time",
		"Convert the image to raw yourself.", LimitExceeded),
	explainFor("The import exceeded `--max-time`, 6 hours", "", TimedOut),
	explainFor("A signal ended the import", "", Canceled),
	explainFor("Another error, such as a missing `qemu-img`", "", Internal),
}

func explainFor(meaning, advice string, reason Reason) vmstatus.Explanation {
	return vmstatus.Explanation{Reasons: []vmstatus.Reason{vmstatus.Reason(reason)}, Meaning: meaning, Advice: advice}
}
