/* Makes pictures: smooth colours with some noise, compressed by the same libraries that will read
 * them. */
#define _GNU_SOURCE
#include "bench/stress/stress_made.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

#include "bench/measure.h"

enum { GOOD = 8, MOST_SIDE = 640 };

/* RGB [height, width, 3] into pixels. */
static void paint(uint8_t *pixels, int width, int height, uint64_t seed)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++, pixels += 3) {
            const uint64_t noise = random_next(&seed) % 24;
            pixels[0] = (uint8_t)(x * 200 / width + (int)noise);
            pixels[1] = (uint8_t)(y * 200 / height + (int)noise);
            pixels[2] = (uint8_t)((x + y) % 200 + (int)noise);
        }
}

static int write_jpeg(FILE *file, const uint8_t *pixels, int width, int height)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (width % 2)
        jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)(pixels + (size_t)jpeg.next_scanline * (size_t)width * 3);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    return !ferror(file);
}

static int write_png(FILE *file, const uint8_t *pixels, int width, int height)
{
    png_image png = { .version = PNG_IMAGE_VERSION, .width = (png_uint_32)width,
                      .height = (png_uint_32)height, .format = PNG_FORMAT_RGB };
    return png_image_write_to_stdio(&png, file, 0, pixels, 0, NULL);
}

/* "FOLDER/name", opened for writing; NULL if that fails. */
static FILE *create(const stress_made *made, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", made->folder, name);
    return fopen(path, "wb");
}

static int close_good(FILE *file, int good)
{
    return file && (good & (fclose(file) == 0));
}

/* Picture number i: wide and tall, JPEG and PNG, sequential and progressive. */
static int write_good(const stress_made *made, int i, uint8_t *pixels)
{
    const int width = 61 + 80 * i % MOST_SIDE, height = 64 + 120 * (GOOD - i) % 500;
    char name[32];
    snprintf(name, sizeof name, "good_%d.%s", i, i % 3 == 2 ? "png" : "jpg");
    FILE *file = create(made, name);
    paint(pixels, width, height, (uint64_t)i + 1);
    const int good = file && (i % 3 == 2 ? write_png : write_jpeg)(file, pixels, width, height);
    return close_good(file, good);
}

/* Nothing, words, and what is left of a JPEG that was cut off. */
static int write_bad(const stress_made *made, uint8_t *pixels)
{
    int good = close_good(create(made, "bad_empty.jpg"), 1);
    FILE *words = create(made, "bad_text.jpg");
    good &= close_good(words, words && fputs("no picture at all\n", words) >= 0);
    FILE *cut = create(made, "bad_cut.jpg");
    good &= cut && write_jpeg(cut, pixels, 320, 200) && fflush(cut) == 0 &&
            ftruncate(fileno(cut), ftell(cut) / 2) == 0;
    return close_good(cut, good);
}

int stress_made_open(stress_made *made)
{
    const char *base = getenv("TMPDIR");
    snprintf(made->folder, sizeof made->folder, "%.900s/flatclip-stress-pictures-XXXXXX",
             base && *base ? base : "/tmp");
    uint8_t *pixels = malloc((size_t)MOST_SIDE * MOST_SIDE * 3);
    int good = pixels != NULL;
    if (!mkdtemp(made->folder))
        good = made->folder[0] = '\0';
    for (int i = 0; good && i < GOOD; i++)
        good = write_good(made, i, pixels);
    good = good && write_bad(made, pixels);
    free(pixels);
    if (!good)
        fputs("flatclip-stress: no pictures could be made in a temporary folder\n", stderr);
    return good;
}

void stress_made_close(stress_made *made)
{
    DIR *folder = made->folder[0] ? opendir(made->folder) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
    if (made->folder[0])
        rmdir(made->folder);
    made->folder[0] = '\0';
}
