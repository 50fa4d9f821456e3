/* Callee-saved registers go to the old stack, come from the new one: about 15 instructions, where swapcontext makes
 * system calls. */
#include "emu/fiber.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) /* System V ABI 3.2.1: rbx, rbp, r12-r15 */
__asm__(".text\n.globl emu_switch\n.type emu_switch,@function\nemu_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n.size emu_switch,.-emu_switch\n");
enum { SAVED = 6 };
#elif defined(__aarch64__) /* AAPCS64: x19-x30, d8-d15 */
__asm__(
    ".text\n.globl emu_switch\n.type emu_switch,%function\nemu_switch:\n"
    "sub sp,sp,#160\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\n"
    "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\n"
    "stp d14,d15,[sp,#144]\nmov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\n"
    "ldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
    "add sp,sp,#160\nret\n.size emu_switch,.-emu_switch\n");
#else
#error "the emulator switches stacks on x86-64 and AArch64 only"
#endif

void *emu_fiber_make(char *top, void (*entry)(void)) {
  void **sp = (void **)((uintptr_t)top & ~(uintptr_t)63);
#if defined(__x86_64__)
  *--sp = NULL; /* return address of entry: it never returns; also the alignment a call would leave */
  memcpy(--sp, &entry, sizeof entry);
  for (int i = 0; i < SAVED; i++) *--sp = NULL;
#else
  sp -= 20;
  memset(sp, 0, 160);
  memcpy(sp + 11, &entry, sizeof entry); /* x30 */
#endif
  return sp;
}
