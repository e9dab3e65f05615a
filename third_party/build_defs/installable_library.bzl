"""A library that programs outside this repository link: an archive and a shared library of the same objects."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _pic_impl(settings, _attr):
    return {"//command_line_option:copt": settings["//command_line_option:copt"] + ["-fPIC"]}

# --config=opt turns the feature supports_pic off, so that each file is compiled once. The libraries below an
# installable_library, and no others, are compiled a second time, with this option.
_pic = transition(
    implementation = _pic_impl,
    inputs = ["//command_line_option:copt"],
    outputs = ["//command_line_option:copt"],
)

def _objects_and_flags(ctx):
    """Returns the objects whose symbols are exported, the other objects, and the linker's options."""
    exported, internal, flags = [], [], []
    names = {}
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for flag in linker_input.user_link_flags:
                if flag not in flags:
                    flags.append(flag)
            public = linker_input.owner.package in ctx.attr.packages and not linker_input.owner.workspace_name
            for library in linker_input.libraries:
                for object in library.pic_objects or library.objects or []:
                    if object in exported or object in internal:
                        continue
                    if object.basename in names:
                        fail("two objects have one name: %s, %s" % (names[object.basename].path, object.path))
                    names[object.basename] = object
                    hidden = object.basename.split(".")[0] in ctx.attr.hidden
                    (exported if public and not hidden else internal).append(object)
    return exported, internal, flags

def _installable_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    exported, internal, flags = _objects_and_flags(ctx)
    archive = ctx.actions.declare_file("lib%s.a" % ctx.attr.library)
    others = ctx.actions.declare_file("%s_internal.a" % ctx.label.name)
    soname = "lib%s.so.%s" % (ctx.attr.library, ctx.attr.abi)
    shared = ctx.actions.declare_file(soname)
    options = ctx.actions.declare_file("%s.options" % ctx.attr.library)

    for output, objects in ((archive, exported + internal), (others, internal)):
        args = ctx.actions.args()
        args.add("qcD")
        args.add(output)
        args.add_all(objects)
        ctx.actions.run(
            executable = toolchain.ar_executable,
            arguments = [args],
            inputs = depset(objects, transitive = [toolchain.all_files]),
            outputs = [output],
            mnemonic = "Archive",
        )

    args = ctx.actions.args()
    args.add_all(["-shared", "-o"])
    args.add(shared)
    args.add_all(["-Wl,-soname," + soname, "-Wl,-z,defs,-z,relro,-z,now,--as-needed,--build-id"])

    # Symbols of the archive are not exported. The version script hides what the other objects have of other libraries.
    args.add("-Wl,--exclude-libs,ALL")
    args.add(ctx.file.version_script, format = "-Wl,--version-script,%s")
    args.add_all(exported)
    args.add(others)
    args.add_all(flags + ["-lstdc++", "-lm"])
    ctx.actions.run(
        executable = toolchain.compiler_executable,
        arguments = [args],
        inputs = depset(exported + [others, ctx.file.version_script], transitive = [toolchain.all_files]),
        outputs = [shared],
        mnemonic = "LinkShared",
        use_default_shell_env = True,
    )
    ctx.actions.write(options, " ".join(flags) + "\n")
    return [DefaultInfo(files = depset([archive, shared, options]))]

installable_library = rule(
    implementation = _installable_library_impl,
    doc = """Makes libLIBRARY.a, libLIBRARY.so.ABI, and LIBRARY.options: what a program that links the archive also needs.

The shared library exports the symbols of `packages` that the version script names, and those of no other package.""",
    attrs = {
        "abi": attr.string(doc = "The version of the binary interface, in the name of the shared library.", mandatory = True),
        "deps": attr.label_list(providers = [CcInfo], cfg = _pic),
        "hidden": attr.string_list(doc = "Files of these packages, without ending, that have no public header."),
        "library": attr.string(mandatory = True),
        "packages": attr.string_list(doc = "The packages with public headers."),
        "version_script": attr.label(allow_single_file = True, mandatory = True),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
