/* PNG by libpng, which sees only what png_chunks lets through.
 *
 * Every colour type and depth comes out as 8-bit bands: of 16 bits the high byte is kept, fewer are
 * spread over 0..255 (grey) or left as numbers (palette). libpng reports errors by a callback that
 * must not return: it jumps back to `guarded`. What is allocated hangs on libpng's object, or here
 * on the reader, and is freed in fc_decode_png. */
#include "engine/image/decode.h"

#include "engine/image/crop.h"
#include "engine/image/exif.h"
#include "engine/image/png_chunks.h"
#include "engine/image/resize.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

typedef struct {
    png_structp png;
    png_infop info;
    jmp_buf failed;
    flatclip_status status; /* of the failure that jumped */
    int is_out_of_memory;
    int is_checksum_wrong;
    const fc_decode_job *job;
    int known_orientation; /* from an earlier reading; 0: see the chunks */
    fc_png_chunks chunks;
    fc_picture picture;
    fc_resizer resizer;
    uint8_t *rows; /* one row, or all rows of an interlaced picture; padded */
    size_t row_bytes;
    uint32_t row; /* the one that is being read, for messages */
} png_reader;

/* -- Callbacks --------------------------------------------------------------------------------- */

static void give_up(png_reader *reader, flatclip_status status)
{
    reader->status = status;
    longjmp(reader->failed, 1);
}

/* What libpng says of zlib's own checksum, at the end of the pixels, is better said plainly. */
static const char *plainly(const char *message)
{
    return strstr(message, "incorrect data check") ? "checksum of the unpacked pixels is wrong"
                                                   : message;
}

/* Damage shows first as nonsense in the compressed data. Whether it is damage or a bad encoder, the
 * checksum at the end of the chunk tells. */
static void on_error(png_structp png, png_const_charp message)
{
    png_reader *reader = png_get_error_ptr(png);
    flatclip_error *err = reader->job->err;
    if (reader->is_out_of_memory)
        give_up(reader, fc_fail(err, FLATCLIP_ERR_MEMORY, "no memory to decode the PNG"));
    const flatclip_status damage = fc_png_chunks_check_rest(&reader->chunks);
    if (damage != FLATCLIP_OK)
        give_up(reader, damage);
    give_up(reader, fc_fail(err, FLATCLIP_ERR_IMAGE_CORRUPT, "corrupt PNG: %s, at row %lu of %lu",
                            plainly(message), (unsigned long)reader->row,
                            (unsigned long)reader->chunks.header.height));
}

/* libpng only warns of a wrong checksum once it has all rows. Its other warnings concern data that
 * is too long, which harms nobody. */
static void on_warning(png_structp png, png_const_charp message)
{
    png_reader *reader = png_get_error_ptr(png);
    if (plainly(message) != message)
        reader->is_checksum_wrong = 1;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t bytes)
{
    png_reader *reader = png_get_mem_ptr(png);
    void *block = malloc(bytes);
    if (!block)
        reader->is_out_of_memory = 1;
    return block;
}

static void on_free(png_structp png, png_voidp block)
{
    (void)png;
    free(block);
}

static void on_read(png_structp png, png_bytep out, size_t bytes)
{
    png_reader *reader = png_get_io_ptr(png);
    const flatclip_status status = fc_png_chunks_read(&reader->chunks, out, bytes);
    if (status != FLATCLIP_OK)
        give_up(reader, status);
}

/* -- The header -------------------------------------------------------------------------------- */

static fc_pixel_kind kind_of(int colour_type)
{
    switch (colour_type) {
    case FC_PNG_RGB: return FC_PIXEL_RGB;
    case FC_PNG_INDEX: return FC_PIXEL_INDEX;
    case FC_PNG_GRAY_ALPHA: return FC_PIXEL_GRAY_ALPHA;
    case FC_PNG_RGBA: return FC_PIXEL_RGBA;
    default: return FC_PIXEL_GRAY; /* libpng refuses types that don't exist */
    }
}

static void open_reader(png_reader *reader)
{
    png_structp png = reader->png;
    reader->info = png_create_info_struct(png);
    if (!reader->info)
        png_error(png, "no info structure");
    png_set_read_fn(png, reader, on_read);
    /* The number of pixels is limited already; libpng's limit of a million a side is not wanted. */
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_crc_action(png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE); /* verified already */
    png_read_info(png, reader->info);
}

/* Asks for 8-bit bands, and indices as they are. */
static void choose_output(png_reader *reader)
{
    png_structp png = reader->png;
    const fc_png_header *header = &reader->chunks.header;
    if (header->bit_depth == 16)
        png_set_strip_16(png);
    if (header->bit_depth < 8 && header->colour_type == FC_PNG_GRAY)
        png_set_expand_gray_1_2_4_to_8(png);
    if (header->bit_depth < 8)
        png_set_packing(png);
    if (header->is_interlaced)
        png_set_interlace_handling(png);
    png_read_update_info(png, reader->info);
    reader->row_bytes = png_get_rowbytes(png, reader->info);
}

static void copy_palette(png_reader *reader)
{
    png_colorp colours;
    int count;
    if (!png_get_PLTE(reader->png, reader->info, &colours, &count))
        return;
    for (int i = 0; i < count && i < 256; i++) {
        reader->picture.palette[i][0] = colours[i].red;
        reader->picture.palette[i][1] = colours[i].green;
        reader->picture.palette[i][2] = colours[i].blue;
    }
}

static void describe_picture(png_reader *reader)
{
    const fc_png_header *header = &reader->chunks.header;
    fc_picture *picture = &reader->picture;
    picture->width = (int32_t)header->width;
    picture->height = (int32_t)header->height;
    picture->kind = kind_of(header->colour_type);
    picture->is_bilevel = picture->kind == FC_PIXEL_GRAY && header->bit_depth == 1;
    picture->orientation = reader->known_orientation;
    if (!picture->orientation)
        picture->orientation = fc_exif_orientation(reader->chunks.exif, reader->chunks.exif_bytes);
    copy_palette(reader);
}

/* -- Pixels ------------------------------------------------------------------------------------ */

static void allocate_rows(png_reader *reader, size_t count)
{
    const size_t limit = (SIZE_MAX - FC_ROW_PAD) / reader->row_bytes;
    reader->rows = count > limit ? NULL : malloc(count * reader->row_bytes + FC_ROW_PAD);
    if (!reader->rows)
        give_up(reader, fc_fail(reader->job->err, FLATCLIP_ERR_MEMORY,
                                "no memory for %zu rows of %zu bytes of the PNG", count,
                                reader->row_bytes));
    memset(reader->rows + count * reader->row_bytes, 0, FC_ROW_PAD);
}

static void read_rows(png_reader *reader)
{
    const uint32_t height = reader->chunks.header.height;
    allocate_rows(reader, 1);
    for (reader->row = 0; reader->row < height; reader->row++) {
        png_read_row(reader->png, reader->rows, NULL);
        fc_resize_row(&reader->resizer, (int32_t)reader->row, reader->rows,
                      reader->row_bytes + FC_ROW_PAD);
    }
}

/* Interlacing delivers the picture seven times, finer each time, so all of it must be kept. */
static void read_interlaced(png_reader *reader)
{
    const uint32_t height = reader->chunks.header.height;
    allocate_rows(reader, height);
    for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; pass++)
        for (reader->row = 0; reader->row < height; reader->row++)
            png_read_row(reader->png, reader->rows + reader->row * reader->row_bytes, NULL);
    for (uint32_t y = 0; y < height; y++)
        fc_resize_row(&reader->resizer, (int32_t)y, reader->rows + y * reader->row_bytes,
                      (height - y) * reader->row_bytes + FC_ROW_PAD);
}

static flatclip_status read_picture(png_reader *reader)
{
    const fc_decode_job *job = reader->job;
    open_reader(reader);
    choose_output(reader);
    describe_picture(reader);
    FC_TRY(fc_resize_begin(&reader->resizer, job->options, job->scratch, &reader->picture, job->out,
                           job->err));
    if (reader->chunks.header.is_interlaced)
        read_interlaced(reader);
    else
        read_rows(reader);
    if (reader->is_checksum_wrong)
        return fc_fail(job->err, FLATCLIP_ERR_IMAGE_CORRUPT,
                       "corrupt PNG: checksum of the unpacked pixels is wrong");
    return FLATCLIP_OK;
}

/* Apart from its caller, whose variables a jump would leave undefined. */
static flatclip_status guarded(png_reader *reader)
{
    if (setjmp(reader->failed))
        return reader->status;
    reader->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, reader, on_error, on_warning,
                                           reader, on_malloc, on_free);
    if (!reader->png)
        return fc_fail(reader->job->err, FLATCLIP_ERR_MEMORY, "no memory to decode the PNG");
    return read_picture(reader);
}

/* Reads the picture once. late_orientation gets what an eXIf chunk after the pixels says, or 1. */
static flatclip_status read_once(const fc_decode_job *job, int known_orientation,
                                 int *late_orientation)
{
    png_reader reader = { .job = job, .known_orientation = known_orientation };
    FC_TRY(fc_png_chunks_open(&reader.chunks, job->source, job->scratch->exif, job->err));
    FC_TRY(fc_check_size(job->options, reader.chunks.header.width, reader.chunks.header.height,
                         job->err));
    const flatclip_status status = guarded(&reader);
    png_destroy_read_struct(&reader.png, &reader.info, NULL);
    free(reader.rows);

    *late_orientation = 1;
    if (status == FLATCLIP_OK && job->options->exif_rotate && !reader.chunks.exif_bytes) {
        fc_png_chunks_find_exif(&reader.chunks);
        *late_orientation = fc_exif_orientation(reader.chunks.exif, reader.chunks.exif_bytes);
    }
    return status;
}

flatclip_status fc_decode_png(const fc_decode_job *job)
{
    int orientation, ignored;
    FC_TRY(read_once(job, 0, &orientation));
    if (orientation == 1)
        return FLATCLIP_OK;
    /* Some programs write EXIF behind the pixels. Rows must be turned as they come, so the picture
     * is read again, which is rarer and cheaper than keeping every picture until its end. */
    if (!fc_source_rewind(job->source))
        return fc_fail(job->err, FLATCLIP_ERR_IMAGE_UNSUPPORTED,
                       "the EXIF of this PNG stands after its pixels, so that turning it upright "
                       "takes two readings, which a pipe does not allow; pass a file");
    return read_once(job, orientation, &ignored);
}
