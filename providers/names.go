package providers

// Names by which the registration of providers is known elsewhere, for people who look for
// them. They are the same types.
type (
	// ProviderRegistration is [Registration]: with an HTTP endpoint an
	// HTTPProviderRegistration, with an edge platform's binding an
	// EdgeAIBindingRegistration. Its API tells which.
	ProviderRegistration      = Registration
	HTTPProviderRegistration  = Registration
	EdgeAIBindingRegistration = Registration
	// GatewayOptions is [EdgeGateway].
	GatewayOptions = EdgeGateway
	// APIProvider is [Protocol], which has one method for both ways to call a model:
	// its Options hold what a simple call leaves out.
	APIProvider = Protocol
	// ProviderRegistrationError is [RegistrationError].
	ProviderRegistrationError = RegistrationError
	// EdgeAIBindingError is [EdgeError].
	EdgeAIBindingError = EdgeError
)

// RegisterAPIProvider is [Registry.RegisterProtocol].
func (r *Registry) RegisterAPIProvider(api string, p APIProvider) { r.RegisterProtocol(api, p) }
