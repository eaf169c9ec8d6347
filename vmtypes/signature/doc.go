// Package signature signs VM types and verifies their signatures, without a registry.
//
// A signature has the format that cosign stores in registries: the signed text is a JSON payload with the digest of a
// manifest (see containers-signature(5) of containers/image). The manifest of a VM type contains checksums of its
// modules. So a [Proof], which consists of the manifest, the payload and the signature, shows which modules the owner
// of a key has signed, long after they have left the registry.
//
// See docs/decisions/0203-signed-types.md.
package signature
