package v1

import corev1 "k8s.io/api/core/v1"

// ProvisioningType is the kind of data that Provisioning contains.
type ProvisioningType string

// The types of provisioning.
const (
	ProvisioningUserData    ProvisioningType = "UserData"
	ProvisioningUserDataRef ProvisioningType = "UserDataRef"
	ProvisioningSysprepRef  ProvisioningType = "SysprepRef"
)

// The types of Secrets that a guest may get. Other types are refused, because users who create VMs
// need not have permission to read the Secrets of the namespace.
const (
	SecretTypeCloudInit corev1.SecretType = "provisioning.virtualization.deckhouse.io/cloud-init"
	SecretTypeSysprep   corev1.SecretType = "provisioning.virtualization.deckhouse.io/sysprep"
)

// Provisioning is the data that the guest configures itself with at its first boot.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'UserData' || has(self.userData) && !has(self.userDataRef) && !has(self.sysprepRef)",message="the type UserData requires userData, and neither userDataRef nor sysprepRef"
// +kubebuilder:validation:XValidation:rule="self.type != 'UserDataRef' || has(self.userDataRef) && !has(self.userData) && !has(self.sysprepRef)",message="the type UserDataRef requires userDataRef, and neither userData nor sysprepRef"
// +kubebuilder:validation:XValidation:rule="self.type != 'SysprepRef' || has(self.sysprepRef) && !has(self.userData) && !has(self.userDataRef)",message="the type SysprepRef requires sysprepRef, and neither userData nor userDataRef"
type Provisioning struct {
	// Type of the data. UserData: cloud-init's user-data in userData. UserDataRef: cloud-init's
	// user-data in a Secret. SysprepRef: answer files of Windows Setup in a Secret.
	//
	// +kubebuilder:validation:Enum=UserData;UserDataRef;SysprepRef
	Type ProvisioningType `json:"type"`
	// User-data for cloud-init as text, such as a cloud-config or a script (#!/bin/sh). All users
	// who can read the VM can read it.
	//
	// +optional
	UserData *string `json:"userData,omitempty"`
	// Secret of the type provisioning.virtualization.deckhouse.io/cloud-init with the key userData.
	//
	// +optional
	UserDataRef *SecretRef `json:"userDataRef,omitempty"`
	// Secret of the type provisioning.virtualization.deckhouse.io/sysprep with the key
	// unattend.xml, autounattend.xml, or both.
	//
	// +optional
	SysprepRef *SecretRef `json:"sysprepRef,omitempty"`
}

// SecretRef names a Secret in the namespace of the VM.
type SecretRef struct {
	// Kind of the resource: Secret.
	//
	// +kubebuilder:validation:Enum=Secret
	Kind string `json:"kind"`
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DataSource is the source of cloud-init data.
type DataSource struct {
	// Key of a Secret of the type provisioning.virtualization.deckhouse.io/cloud-init.
	SecretKeyRef SecretKeyRef `json:"secretKeyRef"`
}

// SecretKeyRef names a key of a Secret in the namespace of the VM.
type SecretKeyRef struct {
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be the name of a key of a Secret: letters, digits, -, _ and ."
	Key string `json:"key"`
}
