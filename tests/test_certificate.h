/* A certificate for 127.0.0.1 that signs itself, for a server in a test. */
#ifndef TEST_CERTIFICATE_H
#define TEST_CERTIFICATE_H

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

static inline EVP_PKEY *make_key(void)
{
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
    if (EVP_PKEY_keygen_init(context) <= 0 ||
        EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) <= 0 ||
        EVP_PKEY_keygen(context, &key) <= 0)
        key = NULL;
    EVP_PKEY_CTX_free(context);
    return key;
}

static inline void add_extension(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

/* The context of a server; its certificate is written to path, to be trusted. NULL on failure. */
static inline SSL_CTX *make_tls_server(const char *path)
{
    EVP_PKEY *key = make_key();
    X509 *certificate = X509_new();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -86400);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 86400);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"flatclip test", -1,
                               -1, 0);
    X509_set_issuer_name(certificate, name);
    add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(certificate, NID_subject_alt_name, "IP:127.0.0.1");
    FILE *file = fopen(path, "w");
    const int good = key && file && X509_sign(certificate, key, EVP_sha256()) > 0 &&
                     PEM_write_X509(file, certificate) &&
                     SSL_CTX_use_certificate(context, certificate) == 1 &&
                     SSL_CTX_use_PrivateKey(context, key) == 1;
    if (file)
        fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
    if (good)
        return context;
    SSL_CTX_free(context);
    return NULL;
}

#endif
