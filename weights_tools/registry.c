/* The table of public models; see registry.h.
 *
 * Sources. Addresses and sha256 of the OpenAI files: the public repository openai/CLIP,
 * clip/clip.py at commit d05afc436d78f1c48dc0dbf8e5980a9d471f35f6, where the sha256 is the folder
 * in the address; that they use QuickGELU: clip/model.py there. Their lengths: pxl-pshr/pytti,
 * app/model_mirror.py at commit 14f55e0155f08962b414d83119eda3d0897e6218, which lists them beside
 * the same sha256. The address, and that it uses QuickGELU, of the open_clip file:
 * mlfoundations/open_clip, src/open_clip/pretrained.py at commit
 * 0134a4551a27e055b14affc0f0f68eb04ef58fcc; its sha256 and length: AmerZuher/
 * Super-Image-Quality-Enhancer, backend/src/siqe/ai/manifest.py at commit
 * 1af124d5b542c3442356bdef341eab9babc77956; the first 8 digits also stand in the file's name.
 * Licences: LICENSE of openai/CLIP; issue 177 of mlfoundations/open_clip. Limits: model-card.md of
 * openai/CLIP; docs/PRETRAINED.md of mlfoundations/open_clip. Nothing that no source tells belongs
 * here, and no model that cannot be run, such as OpenAI's ResNets. */
#include "weights_tools/registry.h"

#include <string.h>

#define OPENAI "https://openaipublic.azureedge.net/clip/models/"
#define OPENAI_LICENCE "MIT, Copyright (c) 2021 OpenAI"
#define OPENAI_LIMITS                                                                           \
    "OpenAI's model card limits its use. Any deployed use, commercial or not, is out of scope,\n" \
    "as are surveillance and face recognition always. Even undeployed uses, image search for\n"   \
    "one, call for thorough tests in their own domain with a fixed set of classes first. It was\n" \
    "made for research and for English only. Read it: https://github.com/openai/CLIP/blob/main/"  \
    "model-card.md\n"

static const fc_registry_entry entries[] = {
    { "openai/ViT-B-32", "ViT-B-32.safetensors",
      OPENAI "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af/ViT-B-32.pt",
      "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af", 353976522,
      FLATCLIP_ACTIVATION_QUICKGELU, "TorchScript archive", OPENAI_LICENCE, OPENAI_LIMITS },
    { "openai/ViT-B-16", "ViT-B-16.safetensors",
      OPENAI "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f/ViT-B-16.pt",
      "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f", 350837078,
      FLATCLIP_ACTIVATION_QUICKGELU, "TorchScript archive", OPENAI_LICENCE, OPENAI_LIMITS },
    { "openai/ViT-L-14", "ViT-L-14.safetensors",
      OPENAI "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836/ViT-L-14.pt",
      "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836", 932768134,
      FLATCLIP_ACTIVATION_QUICKGELU, "TorchScript archive", OPENAI_LICENCE, OPENAI_LIMITS },
    { "openai/ViT-L-14-336px", "ViT-L-14-336px.safetensors",
      OPENAI "3035c92b350959924f9f00213499208652fc7ea050643e8b385c2dac08641f02/ViT-L-14-336px.pt",
      "3035c92b350959924f9f00213499208652fc7ea050643e8b385c2dac08641f02", 934088680,
      FLATCLIP_ACTIVATION_QUICKGELU, "TorchScript archive", OPENAI_LICENCE, OPENAI_LIMITS },
    { "open_clip/ViT-B-32-quickgelu-laion400m_e32", "ViT-B-32-quickgelu-laion400m_e32.safetensors",
      "https://github.com/mlfoundations/open_clip/releases/download/v0.2-weights/"
      "vit_b_32-quickgelu-laion400m_e32-46683a32.pt",
      "46683a32721d5c68911153698992361285d20ca690bb4f317c11e45c03d798fa", 605159845,
      FLATCLIP_ACTIVATION_QUICKGELU, "open_clip checkpoint", "MIT, as open_clip",
      "open_clip trained it on LAION-400M, to reproduce OpenAI's results with open data. Read\n"
      "https://github.com/mlfoundations/open_clip/blob/main/docs/PRETRAINED.md, and hold to the\n"
      "limits of OpenAI's model card here, too.\n" },
};
enum { ENTRIES = sizeof entries / sizeof entries[0] };

const fc_registry_entry *fc_registry_at(size_t index)
{
    return index < ENTRIES ? &entries[index] : NULL;
}

static char plain(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (char)(c - 'A' + 'a');
    return c == '/' || c == '@' ? '-' : c;
}

static int same(const char *a, const char *b)
{
    while (*a && plain(*a) == plain(*b)) {
        a++;
        b++;
    }
    return plain(*a) == plain(*b);
}

const fc_registry_entry *fc_registry_find(const char *name)
{
    for (size_t i = 0; i < ENTRIES; i++) {
        const char *rest = entries[i].name;
        if (strncmp(rest, "openai/", 7) == 0)
            rest += 7;
        if (same(name, entries[i].name) || same(name, rest))
            return &entries[i];
    }
    return NULL;
}

const fc_registry_entry *fc_registry_by_sha256(const char *hex)
{
    for (size_t i = 0; i < ENTRIES; i++)
        if (strcmp(hex, entries[i].sha256) == 0)
            return &entries[i];
    return NULL;
}
