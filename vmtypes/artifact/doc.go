// Package artifact has VM types in registries of containers: one type with its modules, tests
// and samples is an OCI artifact.
//
//	{
//	  "mediaType": "application/vnd.oci.image.manifest.v1+json",
//	  "artifactType": "application/vnd.vmop.vmtype.v1",
//	  "config": {"mediaType": "application/vnd.oci.empty.v1+json", …},
//	  "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", …}],
//	  "annotations": {"org.opencontainers.image.title": "asset", …}
//	}
//
// The layer is a tar archive of the files, sorted, without times and owners, and not compressed:
// the same files have the same digest, whichever program has packed them. What comes from a
// registry may be anything, so all that is read is bounded, and only regular files with names
// that a type's files have are taken.
//
// See docs/decisions/0151-types-in-registries.md.
package artifact
