package providers

// Aliases with the names that other SDKs use for the registration of providers.
type (
	// ProviderRegistration is [Registration]. It covers HTTPProviderRegistration, with an HTTP
	// endpoint, and EdgeAIBindingRegistration, with the binding of an edge platform. API distinguishes
	// them.
	ProviderRegistration      = Registration
	HTTPProviderRegistration  = Registration
	EdgeAIBindingRegistration = Registration
	// GatewayOptions is [EdgeGateway].
	GatewayOptions = EdgeGateway
	// APIProvider is [Protocol]. Its single method covers both full and simple calls: Options are
	// optional.
	APIProvider = Protocol
	// ProviderRegistrationError is [RegistrationError].
	ProviderRegistrationError = RegistrationError
	// EdgeAIBindingError is [EdgeError].
	EdgeAIBindingError = EdgeError
)

// RegisterAPIProvider is [Registry.RegisterProtocol].
func (r *Registry) RegisterAPIProvider(api string, p APIProvider) { r.RegisterProtocol(api, p) }
