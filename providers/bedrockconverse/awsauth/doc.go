// Package awsauth finds AWS credentials in the places of the vendor's own tools, and signs requests.
//
// Package bedrockconverse uses it. It imports the standard library only. A Chain searches, with each
// call, in this order:
//
//  1. AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN.
//  2. The profile named by AWS_PROFILE, or the profile "default" if it has credentials, in the files
//     of AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, ~/.aws/credentials and ~/.aws/config. A
//     profile has keys, or a role assumed by a web identity, another profile or a credential_source.
//     Settings that need a program or a browser are an UnsupportedError.
//  3. The container service: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI.
//  4. A web identity: AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN.
//  5. The instance metadata, version 2, unless AWS_EC2_METADATA_DISABLED is true.
//
// Guarantees:
//
//  1. Keys of the environment and of files are read with each call. Temporary credentials are cached in
//     memory until 5 minutes before expiry. Then one call refreshes them while others use the cached
//     ones. Credentials that the vendor rejects are refreshed at once.
//  2. Concurrent calls share one request to a failing service, and its error. Cached credentials are
//     used while they are valid.
//  3. Errors contain no secrets. Services without TLS are contacted only on this machine or its link.
//  4. Each request has a timeout and ends with its context.
//
// A Chain is safe for concurrent use and starts no goroutine. Credentials are never stored.
package awsauth
