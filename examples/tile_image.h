/* Finds the images of the example kernels. */
#ifndef TILE_IMAGE_H
#define TILE_IMAGE_H

/* Reads the image that nvcc made of <name>.cu; NULL when there is none. */
void *example_image(const char *name);
void example_image_free(void *image);

#endif
