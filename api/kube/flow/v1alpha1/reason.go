package v1alpha1

// The types of conditions.
const (
	ConditionReady        = "Ready"
	ConditionSource       = "SourceReady"
	ConditionSink         = "SinkReady"
	ConditionSubscription = "SubscriptionReady"
	ConditionPolicy       = "PolicyReady"
	ConditionReconciling  = "Reconciling"
	ConditionStalled      = "Stalled"
)

// The reasons of SourceReady.
const (
	ReasonSourceReady            = "SourceReady"
	ReasonSourceReadinessUnknown = "SourceReadinessUnknown"
	ReasonSourceStale            = "SourceStale"
	ReasonSourceNotFound         = "SourceNotFound"
	ReasonSourceKindNotInstalled = "SourceKindNotInstalled"
	ReasonSourceDeleting         = "SourceDeleting"
	ReasonSourceNotReady         = "SourceNotReady"
	ReasonChannelNotFound        = "ChannelNotFound"
	ReasonChannelAmbiguous       = "ChannelAmbiguous"
	ReasonChannelRequired        = "ChannelRequired"
	ReasonApplicationNotMapped   = "ApplicationNotMapped"
	ReasonReferenceNotAllowed    = "ReferenceNotAllowed" // of the other parts too
)

// The reasons of SinkReady.
const (
	ReasonSinkReady              = "SinkReady"
	ReasonBrokerProvisioning     = "BrokerProvisioning"
	ReasonSinkReadinessUnknown   = "SinkReadinessUnknown"
	ReasonBrokerTerminating      = "BrokerTerminating"
	ReasonBrokerNotReady         = "BrokerNotReady"
	ReasonBrokerNotFound         = "BrokerNotFound"
	ReasonBrokerKindNotInstalled = "BrokerKindNotInstalled"
	ReasonSinkNotFound           = "SinkNotFound"
	ReasonSinkKindNotInstalled   = "SinkKindNotInstalled"
	ReasonSinkDeleting           = "SinkDeleting"
	ReasonSinkNotReady           = "SinkNotReady"
	ReasonSinkNotAddressable     = "SinkNotAddressable"
	ReasonInvalidURI             = "InvalidURI" // of SubscriptionReady too
	ReasonNamespaceTerminating   = "NamespaceTerminating"
	ReasonClaimRejected          = "ClaimRejected"
)

// The reasons of SubscriptionReady.
const (
	ReasonSubscriptionReady            = "SubscriptionReady"
	ReasonDirectSource                 = "DirectSource"
	ReasonWaitingForChannel            = "WaitingForChannel"
	ReasonWaitingForSink               = "WaitingForSink"
	ReasonSubscriptionProvisioning     = "SubscriptionProvisioning"
	ReasonSubscriptionStale            = "SubscriptionStale"
	ReasonDeliveryUnverified           = "DeliveryUnverified"
	ReasonSubscriptionNotReady         = "SubscriptionNotReady"
	ReasonSubscriptionDeleting         = "SubscriptionDeleting"
	ReasonSubscriptionConflict         = "SubscriptionConflict"
	ReasonSubscriptionRejected         = "SubscriptionRejected"
	ReasonDeliveryConflict             = "DeliveryConflict"
	ReasonSinkMismatch                 = "SinkMismatch"
	ReasonSubscriptionKindNotInstalled = "SubscriptionKindNotInstalled"
	ReasonSinkIsSource                 = "SinkIsSource"
)

// The reasons of PolicyReady.
const (
	ReasonPolicyApplied          = "PolicyApplied"
	ReasonPolicyKindNotInstalled = "PolicyKindNotInstalled"
	ReasonPolicyRejected         = "PolicyRejected"
	ReasonPolicyConflict         = "PolicyConflict"
)

// The reasons that Ready has besides those of its parts.
const (
	ReasonReady           = "Ready"
	ReasonPending         = "Pending"
	ReasonSuspended       = "Suspended"
	ReasonDeleting        = "Deleting"
	ReasonDeletionBlocked = "DeletionBlocked"
)

// The names that the controller writes on objects.
const (
	Finalizer = Group + "/event-flow"

	// ManagedByLabel with ManagedBy and MadeForAnnotation mark an object that the controller has created.
	ManagedByLabel    = "app.kubernetes.io/managed-by"
	ManagedBy         = "waybill"
	MadeForAnnotation = Group + "/made-for" // the UID of the flow that it was created for

	// ClaimPrefix with the UID of a flow is the annotation by which the flow claims an object. Its value is the policy and the
	// flow's namespace and name, such as "WhenUnused shop/orders".
	ClaimPrefix = "claim." + Group + "/"

	LinkLabel          = Group + "/link"     // hash of the channel and the sink of a Subscription
	DeliveryAnnotation = Group + "/delivery" // the fields of a Subscription's delivery that flows have set
)
