// Package awsauth finds AWS credentials where the vendor's own tools do, and signs requests
// with them.
//
// bedrockconverse calls it; it calls net/http and the standard library. A Chain looks, with
// each call, in this order:
//
//  1. AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN.
//  2. The profile that AWS_PROFILE names, or the profile "default" if it has credentials, in
//     the files of AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE, ~/.aws/credentials and
//     ~/.aws/config: keys, or a role that is taken by a web identity, by another profile or
//     by a credential_source. What needs a program or a browser is refused by its name.
//  3. The service of a container: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI.
//  4. A web identity: AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN.
//  5. The metadata of the instance, by version 2 of its protocol, unless
//     AWS_EC2_METADATA_DISABLED is true.
//
// Guarantees:
//
//  1. Keys of the environment and of files are read with each call. What a service has lent
//     is kept in memory until 5 minutes before it ends, and then asked for again, by one
//     call while others go on with what there is. What the vendor takes no more is asked for
//     at once.
//  2. A service that fails is asked once for all calls that wait for it, and its credentials
//     are used for as long as they are good. Those calls end with the same error.
//  3. No secret stands in an error. A service without TLS is asked on this machine or its
//     link alone.
//  4. Each question has a time limit, and ends with its context.
//
// A Chain is safe for concurrent use and starts no goroutine. Nothing survives the process.
package awsauth
